"""What a cluster is made by: each file by its tool's own schema, and as the project stands."""

import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from click import Command, Context
from ruamel.yaml import YAML

from cse_platform.cli.sweep import main

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "platform" / "deploy"
IMAGE = "cse-platform"


def read(name: str) -> Any:
    return YAML(typ="safe").load(DEPLOY / name)


def commands_in(name: str) -> Iterator[list[str]]:
    """Each command `cse-sweep` of a file, also of its head comment, after that word."""
    text = re.sub(r" \\\n#? *|\n    (?=--)", " ", (DEPLOY / name).read_text())
    for line in re.findall(r"\bcse-sweep ((?:/|sweeps/)[^\n\"]*)", text):
        yield line.split()


def pods() -> Iterator[Mapping[str, Any]]:
    spec = read("raycluster.yaml")["spec"]
    yield from (group["template"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]))


def test_compose_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    subprocess.run([*command, str(DEPLOY / "compose.yaml")], check=True)
    services = read("compose.yaml")["services"]
    assert {service["image"] for service in services.values()} == {IMAGE, "postgres:17"}
    knowing = {name for name, one in services.items() if "CSE_STORE" in one.get("environment", {})}
    assert knowing == {"head"}  # no process that trains
    superusers = {name for name, one in services.items() if "POSTGRES_PASSWORD" in str(one)}
    assert superusers == {"postgres"}
    assert not [one["command"] for one in services.values() if "PASSWORD" in one.get("command", "")]


def test_launcher() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = read("ray-launcher.yaml")
    validate_config(prepare_config(config))


def test_pods_of_kubernetes() -> None:
    import kubernetes_validate

    for template in pods():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, **template}
        kubernetes_validate.validate(pod, "1.33", strict=True)
        [container] = pod["spec"]["containers"]
        assert container["image"] == IMAGE
        assert ("envFrom" in container) == (container["name"] == "head")


def test_cluster_and_job_of_kubernetes_fit_each_other_and_the_pinned_ray() -> None:
    cluster, job = read("raycluster.yaml"), read("rayjob.yaml")
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    assert cluster["spec"]["rayVersion"] == pinned["ray"]
    assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert {cluster["apiVersion"], job["apiVersion"]} == {"ray.io/v1"}


def test_the_image_has_what_servers_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["optional-dependencies"]["cluster"]
    assert any(need.startswith("ray[default]") for need in needed)
    [installed] = re.findall(r"'\.\[([\w,]+)\]'", (DEPLOY / "Dockerfile").read_text())
    assert {"cluster", "postgres"} <= set(installed.split(","))


def test_sweeps_are_asked_for_as_the_command_understands_it() -> None:
    run = main.get_command(Context(main), "run")
    assert isinstance(run, Command)
    for name in ("compose.yaml", "rayjob.yaml"):
        commands = list(commands_in(name))
        assert commands, name
        for file, *options in commands:
            run.make_context("run", [str(ROOT / "sweeps" / Path(file).name), *options])


def test_slurm_script_is_a_script() -> None:
    script = DEPLOY / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert script.stat().st_mode & stat.S_IXUSR
    if shellcheck := shutil.which("shellcheck"):
        subprocess.run([shellcheck, str(script)], check=True)
