"""A Ray of one's own hears nobody else."""

import json
import subprocess
import sys
from pathlib import Path
from stat import S_IMODE

import pytest
from processes import environment

AGENT_PORT = 52365
"""Of Ray's agent where nobody names another; a second Ray on the machine waits for it in vain."""
STARTED = """
import json, psutil, ray
from cse_platform.runner.processes.cluster import join_cluster

join_cluster(None)
ray.get(ray.remote(lambda: None).options(num_cpus=1).remote())
family = [psutil.Process(), *psutil.Process().children(recursive=True)]
heard = {
    one.name(): [at.laddr for at in one.net_connections("inet") if not at.raddr]
    for one in family
}
print(json.dumps(heard))
"""


@pytest.mark.parametrize("older", [True, False], ids=["a token of Ray's own", "no token yet"])
def test_it_listens_on_the_loopback_and_keeps_its_token_to_itself(
    tmp_path: Path, older: bool
) -> None:
    token = tmp_path / ".ray" / "auth_token"
    if older:
        token.parent.mkdir()
        token.write_text("readable for everyone" * 3)
    done = subprocess.run(
        [sys.executable, "-c", STARTED],
        env=environment() | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    heard = json.loads(done.stdout)
    assert {"gcs_server", "raylet"} <= heard.keys()
    places = [place for one in heard.values() for place in one]
    assert {address.removeprefix("::ffff:") for address, _ in places} == {"127.0.0.1"}
    assert AGENT_PORT not in {port for _, port in places}
    assert S_IMODE(token.stat().st_mode) == 0o600
    assert done.stderr == ""
