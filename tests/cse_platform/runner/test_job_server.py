"""Job servers that want a token, or do not answer: asked, or refused in one sentence."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import environment
from ray_nodes import RayNodes, ray_nodes

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.jobs import JobServer

TOKEN = "a-token-of-more-than-32-characters"
ASK = """
import sys
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.jobs import JobServer

try:
    print(JobServer(sys.argv[1]).running("no such sweep"))
except SweepRefusedError as refused:
    sys.exit(f"refused: {refused}")
"""
ELSEWHERE = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1"}
"""Which Ray's own client would ask instead."""


@pytest.fixture(scope="module")
def closed() -> Iterator[RayNodes]:
    """A head whose dashboard wants a token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with ray_nodes(token, include_dashboard=True, dashboard_port=0) as nodes:
        yield nodes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "refused"),
    [
        ({"RAY_AUTH_TOKEN": TOKEN}, None),
        ({"RAY_AUTH_TOKEN": "another"}, "another token than that of RAY_AUTH_TOKEN"),
        ({}, "none in ~/.ray/auth_token"),
    ],
)
def test_a_server_gets_the_token_that_it_wants(
    closed: RayNodes, tmp_path: Path, here: dict[str, str], refused: str | None
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, closed.dashboard],
        env=environment() | {"HOME": str(tmp_path)} | ELSEWHERE | here,
        capture_output=True,
        text=True,
        check=False,
    )
    if refused is None:
        assert (done.stdout, done.stderr) == ("None\n", "")
    else:
        assert done.stderr.startswith("refused: ") and refused in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_address_of_the_cluster_itself_is_no_dashboard(closed: RayNodes) -> None:
    with pytest.raises(SweepRefusedError, match=r"http://HOST:8265"):
        JobServer(closed.address)


def test_an_address_without_a_dashboard_or_of_another_protocol_is_refused() -> None:
    for address in ("head.invalid", "http://127.0.0.1:1/"):
        with pytest.raises(SweepRefusedError, match=r"http://HOST:8265"):
            JobServer(address)
    for unasked in ("ray://head.lab:10001", "ftp://127.0.0.1"):
        with pytest.raises(SweepRefusedError, match=f"^--address {unasked}: .* http://HOST:8265"):
            JobServer(unasked)


def test_what_takes_connections_and_says_nothing_is_no_dashboard() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=50) as silent,
        pytest.raises(SweepRefusedError, match=r"http://HOST:8265"),
    ):
        JobServer(f"127.0.0.1:{silent.getsockname()[1]}")
