"""A Ray of one's own hears nobody else, and starts only the processes it needs."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

from cse_platform.runner.ray_process import list_own_folders, worker_environment
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


def run(code: str, **here: str) -> subprocess.CompletedProcess[str]:
    told = {"capture_output": True, "text": True, "check": True}
    return subprocess.run([sys.executable, "-c", code], env=environment() | here, **told)


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
