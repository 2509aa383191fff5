import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import environment, python
from ray_nodes import RayNodes, ray_nodes

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.jobs import JobServer
from cse_platform.runner.ray_process import list_own_folders, prepare_to_join, worker_environment
from cse_platform.runner.worker import prepare_gpus

AGENT_PORT = 52365
"""Of Ray's agent where nobody names another; a second Ray on the machine waits for it in vain."""
STARTED = """
import json, psutil, ray
from cse_platform.runner.ray_process import join_cluster

join_cluster(None)
ray.get(ray.remote(lambda: None).options(num_cpus=1).remote())
family = [psutil.Process(), *psutil.Process().children(recursive=True)]
heard = {
    one.name(): [at.laddr for at in one.net_connections("inet") if not at.raddr]
    for one in family
}
commands = [" ".join(one.cmdline()) for one in family]
print(json.dumps([heard, commands]))
"""
KEPT = """
import os, psutil, ray
from cse_platform.runner.ray_process import join_cluster

join_cluster(None)
process = ray.remote(lambda: os.getpid()).options(num_cpus=1)
scorer = psutil.Process(ray.get(process.remote()))

@ray.remote(num_cpus=1, runtime_env={"env_vars": {"ANOTHER": "environment"}})
class Trial:
    def begin(self):
        pass

trials = [Trial.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
ray.get([trial.begin.remote() for trial in trials])
psutil.wait_procs([scorer], timeout=5)  # Ray itself ends one that is idle for a second
for trial in trials:
    ray.kill(trial)
print(ray.get(process.remote()) == scorer.pid)
"""

GPUS_SEEN = """
import json, os, ray
from cse_platform.runner.worker import prepare_gpus

ray.init("local", num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)

@ray.remote
def see():
    prepare_gpus()
    return os.environ["CUDA_VISIBLE_DEVICES"]

print(json.dumps([ray.get(see.options(num_gpus=gpus).remote()) for gpus in (0, 0.5, 1)]))
"""
SHADOWED = """
import json, sys, ray
from cse_platform.runner.ray_process import join_cluster

join_cluster(None)

@ray.remote
def look():
    import statistics, own_method
    return [statistics.fmean([1, 2]), own_method.__name__, sys.path]

print(json.dumps(ray.get(look.remote())))
"""


def run(code: str, *words: str, folder: Path | None = None, **here: str) -> Any:
    """Run code in a Python of its own, without what would send it elsewhere."""
    return python(code, *words, check=False, env=environment() | here, cwd=folder)


@pytest.mark.slow
def test_it_listens_on_the_loopback_and_needs_neither_a_home_nor_a_short_tmpdir(tmp_path) -> None:
    """Its sockets lie in a short folder, and its token in the environment of its processes."""
    long = tmp_path / "of_a_job_with_a_name_of_more_than_forty_characters"
    long.mkdir()
    done = run(STARTED, HOME="/dev/null/no-home", TMPDIR=str(long))
    heard, commands = json.loads(done.stdout)
    assert {"gcs_server", "raylet"} <= heard.keys()
    places = [place for one in heard.values() for place in one]
    assert {address.removeprefix("::ffff:") for address, _ in places} == {"127.0.0.1"}
    assert AGENT_PORT not in {port for _, port in places}
    assert done.stderr == ""
    assert not [command for command in commands if "monitor.py" in command]


@pytest.mark.slow
def test_a_process_that_scores_outlives_the_trials_of_the_next_stage() -> None:
    done = run(KEPT)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.slow
def test_a_trial_without_a_gpu_sees_none() -> None:
    """Ray itself shows it all GPUs of the node, as a pretended one here."""
    assert json.loads(run(GPUS_SEEN, CUDA_VISIBLE_DEVICES="0").stdout) == ["", "0", "0"]


def test_the_memory_of_a_gpu_is_not_split_unless_the_environment_says_how(monkeypatch) -> None:
    for given in ({"PYTORCH_ALLOC_CONF": ""}, {"PYTORCH_CUDA_ALLOC_CONF": ""}, {}):
        monkeypatch.setattr(os, "environ", dict(given))
        prepare_gpus()
        assert os.environ == (given or {"PYTORCH_ALLOC_CONF": "expandable_segments:True"})


def test_workers_of_this_machine_find_a_python_below_a_blank(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/a b/.venv/bin/python3")
    for address in (None, "127.0.0.1:6379"):
        command = worker_environment(address)["py_executable"]  # Ray hands it to a shell
        assert shlex.split(command) == [sys.executable]
    assert "py_executable" not in worker_environment("192.0.2.250:6379")
    monkeypatch.setattr(sys, "executable", "/home/ab/.venv/bin/python3")
    assert "py_executable" not in worker_environment(None)


def test_workers_import_from_folders_that_the_driver_prefers(tmp_path, monkeypatch) -> None:
    work, script = tmp_path / "work", tmp_path / "script"
    for folder in (work, script):
        folder.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "argv", [str(script / "run.py")])
    python = [str(Path(os.__file__).parent), "/lib/site-packages"]
    for path, own in (
        (["/venv/bin", *python], []),  # the command `cse-sweep`
        ([str(script), *python], [script]),  # a script elsewhere
        ([str(script), "/mine", str(work), *python], [script, work]),  # PYTHONPATH=/mine:.
        (["", *python], [work]),  # a notebook, `python -m`
        (["/venv/bin", *python, str(work)], []),  # a package installed from its folder
    ):
        monkeypatch.setattr(sys, "path", path)
        assert list_own_folders() == [str(folder) for folder in own]
    monkeypatch.setattr(sys, "path", [str(script), *python])
    for others in ("", "/mine"):
        monkeypatch.setenv("PYTHONPATH", others)
        variables = worker_environment(None)["env_vars"]
        # An empty entry would be the working directory.
        assert variables["PYTHONPATH"].split(os.pathsep) == [str(script), *filter(None, [others])]


@pytest.mark.slow
def test_a_file_of_the_user_shadows_no_module_in_a_worker(tmp_path) -> None:
    (tmp_path / "statistics.py").write_text("raise RuntimeError")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "own_method.py").touch()
    (scripts / "run.py").write_text(SHADOWED)
    command = [sys.executable, "scripts/run.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    mean, own, path = json.loads(done.stdout)
    assert (mean, own) == (1.5, "own_method")
    assert str(tmp_path) not in path


TOKEN = "a token of more than 32 characters".replace(" ", "-")
JOIN = """
import sys, ray
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.ray_process import join_cluster

try:
    join_cluster(sys.argv[1])
except SweepRefusedError as refused:
    sys.exit(f"refused: {refused}")
print(ray.get(ray.remote(lambda: "a worker has answered").options(num_cpus=0).remote()))
"""
SHIP = """
import sys, ray
from pathlib import Path
from cse_platform.runner.ray_process import join_cluster

def number():
    import shipped_number
    return shipped_number.NUMBER

file = Path("shipped_number.py")
for line in ("NUMBER = 1", "NUMBER = 1", "NUMBER = 2", None):
    if line is not None:
        file.write_text(line)
    join_cluster(sys.argv[1], None if line is None else {"py_modules": [str(file.absolute())]})
    print(ray.get(ray.remote(number).options(num_cpus=0).remote()))
"""
ASK = """
import sys
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.jobs import JobServer

try:
    print(JobServer(sys.argv[1]).find_job("no such sweep"))
except SweepRefusedError as refused:
    sys.exit(f"refused: {refused}")
"""
ELSEWHERE = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1"}
"""Which Ray's own client would ask instead."""
WORKER = "a worker has answered"


@pytest.fixture(scope="module")
def closed() -> Iterator[RayNodes]:
    """A cluster that wants a token."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with ray_nodes(token, include_dashboard=True, dashboard_port=0) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def heads(closed: RayNodes) -> Iterator[dict[str, str]]:
    """The addresses of that cluster and of one that wants none."""
    with ray_nodes(include_dashboard=False) as nodes:
        yield {"open": nodes.address, "closed": closed.address}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "here", "told"),
    [
        ("open", {}, WORKER),
        ("open", {"RAY_AUTH_TOKEN": TOKEN}, WORKER),
        ("open", {"RAY_AUTH_TOKEN": TOKEN, "RAY_AUTH_MODE": "token"}, WORKER),
        ("closed", {"RAY_AUTH_TOKEN": TOKEN}, WORKER),
        ("closed", {"RAY_AUTH_TOKEN": "another"}, "another token than that of RAY_AUTH_TOKEN"),
        ("closed", {}, "none in ~/.ray/auth_token"),
        ("closed", {"RAY_AUTH_TOKEN_PATH": "/not/there"}, "none in /not/there"),
    ],
)
def test_a_cluster_gets_the_token_that_it_wants(heads, tmp_path, kind, here, told) -> None:
    check_answer(JOIN, heads[kind], {"HOME": str(tmp_path)} | here, told)


@pytest.mark.slow
def test_auto_is_the_cluster_that_was_started_here_last(heads, tmp_path) -> None:
    current = tmp_path / "ray" / "ray_current_cluster"
    current.parent.mkdir()
    current.write_text(heads["closed"])
    here = {"RAY_TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    check_answer(JOIN, "auto", here | {"RAY_AUTH_TOKEN": TOKEN}, WORKER)
    told = f"cluster at {heads['closed']} expects another token"
    check_answer(JOIN, "auto", here | {"RAY_AUTH_TOKEN": "another"}, told)


def check_answer(code: str, address: str, here: dict[str, str], told: str) -> None:
    done = run(code, address, **here)
    if not done.returncode:
        assert (done.stdout, done.stderr) == (f"{told}\n", "")
    else:
        assert done.stderr.startswith("refused: ") and told in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_workers_have_the_code_of_the_shipment_that_was_joined_with_last(heads, tmp_path) -> None:
    done = run(SHIP, heads["open"], folder=tmp_path, HOME=str(tmp_path))
    assert done.stdout.split() == ["1", "1", "2", "2"], done.stderr


def test_an_address_without_cluster_or_dashboard_or_of_another_protocol_is_refused() -> None:
    for address in ("127.0.0.1:1", "head.invalid:6379", "no port"):
        with pytest.raises(SweepRefusedError, match="no Ray cluster answers"):
            prepare_to_join(address)
    for address in ("head.invalid", "http://127.0.0.1:1/"):
        with pytest.raises(SweepRefusedError, match=r"http://HOST:8265"):
            JobServer(address)
    for unasked in ("ray://head.lab:10001", "ftp://127.0.0.1"):
        with pytest.raises(SweepRefusedError, match=f"^--address {unasked}: .* http://HOST:8265"):
            JobServer(unasked)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        pytest.param(prepare_to_join, "no Ray cluster answers", marks=pytest.mark.slow),
        (JobServer, "http://HOST:8265"),
    ],
)
def test_what_takes_connections_and_says_nothing_is_neither(asked, told) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SweepRefusedError, match=told):
            asked(address)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "told"),
    [
        ({"RAY_AUTH_TOKEN": TOKEN}, "None"),
        ({"RAY_AUTH_TOKEN": "another"}, "another token than that of RAY_AUTH_TOKEN"),
        ({}, "none in ~/.ray/auth_token"),
    ],
)
def test_a_job_server_gets_the_token_that_it_wants(closed, tmp_path, here, told) -> None:
    check_answer(ASK, closed.dashboard, {"HOME": str(tmp_path)} | ELSEWHERE | here, told)
    with pytest.raises(SweepRefusedError, match=r"http://HOST:8265"):
        JobServer(closed.address)  # that of the cluster itself is no dashboard


FAULT = """
import faulthandler, io, sys, threading

from cse_platform.runner.ray_process import join_cluster

if sys.argv[1] == "memory":
    sys.stderr = io.StringIO()
join_cluster(None)
if sys.argv[1] == "memory":
    sys.exit(7)
def wait_for_the_end():
    waits.set()
    threading.Event().wait()
waits = threading.Event()
threading.Thread(target=wait_for_the_end, daemon=True).start()
waits.wait()
faulthandler._sigsegv()
"""


@pytest.mark.slow
def test_a_fault_of_native_code_leaves_the_stack_of_each_thread() -> None:
    fault = run(FAULT, "file")
    assert fault.returncode == -signal.SIGSEGV
    assert "in wait_for_the_end" in fault.stderr and "Current thread" in fault.stderr
    assert run(FAULT, "memory").returncode == 7
