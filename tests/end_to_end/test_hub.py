"""From an empty cache to the leaderboard: a shipped sweep fetches all that it needs from a hub.

The hub is on loopback and has the real dev and test sets, a million lines under wiki1m's name, and
the weights of `mini` under the names of BERT and its teachers.
"""

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback_hub import LoopbackHub
from processes import run_command

from cse_methods.data.dev_sets import DEV_TABLES, load_dev_set
from cse_methods.data.senteval import ARCHIVE
from cse_methods.encoders.backbones import resolve_backbone
from cse_platform.sweep.yaml_file import read_yaml

pytestmark = pytest.mark.slow

SWEEP = Path(__file__).parents[2] / "sweeps/rankcse.yaml"
RELEASED = SWEEP.with_name("released.yaml")
PCL = "qiyuw/pcl-bert-base-uncased"
BRIEF = {
    "corpus": "{name: wiki1m, first: 512}",  # teachers read all of it
    **{"search.trials": 1, "search.sampler": "random", "seeds": "{search: 42}", "pruner": "none"},
    **{"fixed.max_steps": 2, "fixed.eval_steps": 2, "fixed.batch_size": 8},
    "resources": "{gpu: 0, cpu: 1}",
}


@pytest.fixture
def whole_hub(loopback_hub: LoopbackHub, shared: Path) -> LoopbackHub:
    """All that the sweep names, in the form and size that the real hub has it in."""
    mini = Path(str(resolve_backbone("mini").model))
    for name in ("bert-base", "simcse-bert-base", "simcse-bert-large", "diffcse-bert-base", PCL):
        backbone = resolve_backbone(name)
        loopback_hub.revisions[str(backbone.model)] = {str(backbone.revision)}
        for file in (file for file in mini.iterdir() if file.is_file()):
            other = b"\n" if (name, file.name) == (PCL, "config.json") else b""  # another encoder
            content = file.read_bytes() + other
            loopback_hub.put("models", str(backbone.model), file.name, content)
    for task, table in DEV_TABLES.items():
        pairs = load_dev_set(task, str(shared / "data"))
        values = (column[: table.pairs] for column in (pairs.first, pairs.second, pairs.gold))
        columns = dict(zip(table.columns, values, strict=True))
        stream = BytesIO()
        pq.write_table(pa.table(columns), stream)
        repository = table.file.repository
        loopback_hub.revisions[repository] = {table.file.revision}
        loopback_hub.put("datasets", repository, table.file.name, stream.getvalue())
    lines = (shared / "data/corpus/wiki1m_slice.txt").read_bytes().splitlines(keepends=True)
    million = b"".join((lines * (1_000_000 // len(lines) + 1))[:1_000_000])
    loopback_hub.put("datasets", ARCHIVE.repository, "wiki1m_for_simcse.txt", million)
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(shared / "data/downstream", arcname=".")
    loopback_hub.put("datasets", ARCHIVE.repository, ARCHIVE.name, archive.getvalue())
    return loopback_hub


def command(hub: LoopbackHub, home: Path, name: str, *arguments: str, **more: str) -> Any:
    """Run a command against the hub, with a cache of its own."""
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "CSE_CACHE": str(home / "cse")}
    own |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "HOME": str(home)} | more
    return run_command(name, *arguments, **own)


def test_a_shipped_sweep_runs_from_an_empty_cache(whole_hub: LoopbackHub, tmp_path: Path) -> None:
    settings = [f"--set={key}={value}" for key, value in BRIEF.items()]
    runs = f"--runs={tmp_path / 'runs'}"
    home = tmp_path / "home"
    home.mkdir()
    done = command(whole_hub, home, "cse-sweep", str(SWEEP), runs, *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(command(whole_hub, home, "cse-leaderboard", runs, "--json").stdout)
    (row,) = rows if isinstance(rows, list) else rows["rows"]
    assert (row["method"], row["backbone"]) == ("rankcse", "bert-base")
    assert row["test"]["avg_sts"] is not None
    assert whole_hub.bytes_sent(ARCHIVE.name) == 1
    asked = len(whole_hub.asked)
    again = [*settings, "--set=sweep=offline", "--set=seeds={search: 7}"]
    offline = command(whole_hub, home, "cse-sweep", str(SWEEP), runs, *again, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stdout + offline.stderr
    assert len(whole_hub.asked) == asked


def test_released_encoders_stand_in_the_papers_tables(whole_hub, tmp_path) -> None:
    """Two stages of the shipped file, on STS alone: the transfer tasks take minutes on a CPU."""
    file, runs, home = tmp_path / "released.yaml", f"--runs={tmp_path / 'runs'}", tmp_path / "home"
    home.mkdir()
    systems = {"diffcse-bert-base": "diffcse", PCL: "pcl"}
    stages = read_yaml(RELEASED.read_text()).data["stages"]
    brief = {"resources": {"cpu": 1}, "evaluate": {"top": 1, "tasks": ["sts"]}}
    chosen = [{**one, **brief} for one in stages if one["backbone"] in systems]
    file.write_text(json.dumps({"stages": chosen}))  # JSON is YAML
    done = command(whole_hub, home, "cse-sweep", str(file), runs)
    assert done.returncode == 0, done.stdout + done.stderr

    words = ("cse-leaderboard", runs, "--backbone", "bert-base")
    rows = json.loads(command(whole_hub, home, *words, "--json").stdout)
    assert {row["backbone"]: row["released"] for row in rows} == systems
    assert {(row["method"], row["trained_from"]) for row in rows} == {("untrained", "bert-base")}
    shown = command(whole_hub, home, *words).stdout
    assert "diffcse (released)  bert-base" in shown and "scored here and not trained" in shown
    table = json.loads(
        command(whole_hub, home, words[0], "paper", "rankcse", "2", words[1], "--json").stdout
    )
    stands = {one["method"]: one["released"] for one in table["lines"] if one["ours"]}
    assert stands == {system: encoder for encoder, system in systems.items()}
