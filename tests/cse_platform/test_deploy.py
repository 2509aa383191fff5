import re
import tomllib
from pathlib import Path
from typing import Any

from click import Command, Context
from processes import git
from ruamel.yaml import YAML

from cse_platform.cli.sweep import main
from cse_platform.sweep.shipped import find_sweep_file

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "platform" / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of that name in the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def read(name: str) -> Any:
    return YAML(typ="safe").load(DEPLOY / name)


def containers_of(cluster: Any) -> list[Any]:
    """The containers of a Ray cluster on Kubernetes, the head's first."""
    groups = (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])
    return [one for group in groups for one in group["template"]["spec"]["containers"]]


def test_only_the_head_of_a_cluster_knows_the_stores() -> None:
    services = read("compose.yaml")["services"]
    knowing = {name for name, one in services.items() if "CSE_STORE" in one.get("environment", {})}
    assert knowing == {"head"}  # no process that trains
    superusers = {name for name, one in services.items() if "POSTGRES_PASSWORD" in str(one)}
    assert superusers == {"postgres"}
    assert not [one["command"] for one in services.values() if "PASSWORD" in one.get("command", "")]
    for container in containers_of(read("raycluster.yaml")["spec"]):
        assert ("envFrom" in container) == (container["name"] == "head")
        assert container["image"] == services["worker"]["image"]


def test_all_nodes_of_a_cluster_share_what_is_computed_once() -> None:
    shared = {"CSE_CACHE", "HF_HOME"}
    services = read("compose.yaml")["services"]
    places = [{k: services[name]["environment"][k] for k in shared} for name in ("head", "worker")]
    for container in containers_of(read("raycluster.yaml")["spec"]):
        assert [one["mountPath"] for one in container["volumeMounts"]] == ["/lab"]
        places.append({one["name"]: one["value"] for one in container["env"]})
    assert places == [places[0]] * 4
    assert all(place.startswith("/lab/") for place in places[0].values())


def test_files_for_ray_fit_each_other_and_the_pinned_ray() -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = read("ray-launcher.yaml")
    validate_config(prepare_config(config))
    cluster, job = read("raycluster.yaml"), read("rayjob.yaml")
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    assert cluster["spec"]["rayVersion"] == pinned["ray"]
    assert {cluster["apiVersion"], job["apiVersion"]} == {"ray.io/v1"}
    own = job["spec"]["rayClusterSpec"]
    assert containers_of(own) == containers_of(cluster["spec"])
    assert own.items() >= {n: cluster["spec"][n] for n in ("rayVersion", "authOptions")}.items()


def test_a_sweep_that_waits_in_the_queue_is_one_that_kueue_admits() -> None:
    """Kueue refuses a cluster that stays or that scales by itself, and what exceeds its quota."""
    documents = YAML(typ="safe").load_all(DEPLOY / "kueue.yaml")
    kinds = {document["kind"]: document for document in documents}
    job = read("rayjob.yaml")
    queue, spec = kinds["LocalQueue"], job["spec"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == queue["metadata"]["name"]
    assert queue["spec"]["clusterQueue"] == kinds["ClusterQueue"]["metadata"]["name"]
    assert spec["shutdownAfterJobFinishes"] and spec["backoffLimit"] > 0
    assert "clusterSelector" not in spec and "enableInTreeAutoscaling" not in spec["rayClusterSpec"]
    [group] = kinds["ClusterQueue"]["spec"]["resourceGroups"]
    [flavor] = group["flavors"]
    assert flavor["name"] == kinds["ResourceFlavor"]["metadata"]["name"]
    limits = {
        name for one in containers_of(spec["rayClusterSpec"]) for name in one["resources"]["limits"]
    }
    assert limits == set(group["coveredResources"]) == {r["name"] for r in flavor["resources"]}


def test_sweeps_are_asked_for_as_the_command_understands_it() -> None:
    group = Context(main, **main.context_settings)
    run = main.get_command(group, "run")
    assert isinstance(run, Command)
    for name in ("compose.yaml", "rayjob.yaml"):
        text = re.sub(r" \\\n#? *|\n    (?=--)", " ", (DEPLOY / name).read_text())
        commands = re.findall(r"\bcse-sweep (quickstart[^\n\"]*)", text)  # of its comments, too
        assert commands, name
        for file, *options in map(str.split, commands):
            assert find_sweep_file(Path(file)) != Path(file)
            run.make_context("run", [file, *options], parent=group)


def test_all_files_of_all_packages_are_declared() -> None:
    """hatchling takes whole packages; an option that leaves files out would leave data out."""
    assert WHEEL.keys() == {"packages", "force-include"}
    assert [Path(package).name for package in WHEEL["packages"]] == (
        PROJECT["tool"]["importlinter"]["root_packages"]
    )
    assert PROJECT["tool"]["hatch"]["build"].keys() == {"targets"}
    tracked = git(ROOT, "ls-files", *WHEEL["packages"]).splitlines()
    suffixes = {Path(file).suffix for file in tracked}
    assert {".j2", ".csv", ".safetensors", ".html", ".json", ".typed", ".css"} <= suffixes


def test_the_image_copies_what_is_there_and_installs_what_is_declared() -> None:
    copied = [line.split()[:-1] for line in instructions("COPY") if not line.startswith("--from")]
    sources = {source for line in copied for source in line}
    assert all((ROOT / source).exists() for source in sources)
    roots = {Path(package).parts[0] for package in WHEEL["packages"]} | set(WHEEL["force-include"])
    assert {"pyproject.toml", "constraints.txt", PROJECT["project"]["readme"], *roots} <= sources
    assert set(PROJECT["project"]["license-files"]) <= sources
    [extras] = re.findall(r"\.whl\)\[([\w,]+)\]", DOCKERFILE)
    declared = PROJECT["project"]["optional-dependencies"]
    assert {"cluster", "postgres"} <= set(extras.split(",")) <= declared.keys()
    assert any(need.startswith("ray[default]") for need in declared["cluster"])
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert instructions("FROM") == [f"python:{python}-slim AS wheel", f"python:{python}-slim"]
