"""Sweeps of the method `st`: killed and resumed, refused before they start, rehearsed."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import invoke
from labelled_rows import write_rows
from processes import end_of
from ray_nodes import ray_nodes
from sentence_transformers import SentenceTransformer
from store_contents import assert_stores_agree
from sweeps import Sweep, write_sweep
from tiny_families import save_tiny_of_library

from cse_platform.cli.evaluate import main as evaluate
from cse_platform.cli.leaderboard import main as leaderboard
from cse_platform.cli.sweep import main
from cse_platform.tracking.events import Event, TrialPoint, TrialStarted

pytestmark = pytest.mark.slow

LOSSES = [
    "multiple_negatives", "cached_multiple_negatives", "cached_gist", "global_orthogonal", "triplet"
]  # fmt: skip


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_of_library("qwen3", tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="module")
def base(decoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A grid of five losses with LoRA on a decoder, beside scored pairs."""
    folder = tmp_path_factory.mktemp("rows")
    scored = write_rows(folder, "cosent") | {"loss": "cosent", "weight": 1}
    return {
        "sweep": "five", "method": "st", "backbone": str(decoder), "data": "builtin",
        "corpus": [write_rows(folder, "triplet") | {"weight": 3}, scored],
        "fixed": {
            "max_steps": 12, "eval_steps": 2, "batch_size": 8, "pooler": "lasttoken",
            "lora": {"rank": 4}, "learning_rate": 1e-3,
        },
        "space": {
            "loss": LOSSES, "guide": {"choices": ["mini"], "when": {"loss": "cached_gist"}},
        },
        "search": {"sampler": "grid"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole(base: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The sweep after a run without any interruption."""
    sweep = write_sweep(tmp_path_factory.mktemp("whole"), base)
    ended = sweep.run()
    assert ended.returncode == 0, ended.stderr
    return sweep


def test_killed_workers_lost_nodes_and_a_killed_driver_change_nothing(
    whole: Sweep, base: Mapping[str, Any], tmp_path: Path
) -> None:
    killed = write_sweep(tmp_path, base, resources={"checkpoint_every": "0s"})
    with ray_nodes() as nodes:
        nodes.add("first", cpus=1)
        nodes.add("second", cpus=1)
        with end_of(killed.start("--address", nodes.address)) as process:
            killed.wait_for(process, TrialPoint, 3)  # one of both has passed step 0
            _kill_workers()
            _wait_for_more(killed, process, TrialStarted, 2)
            _wait_for_more(killed, process, TrialPoint, 3)
            nodes.kill("first")
            nodes.kill("second")
            nodes.add("third", cpus=2)
            _wait_for_more(killed, process, TrialStarted, 2)
            _wait_for_more(killed, process, TrialPoint, 3)
            process.send_signal(signal.SIGKILL)
            process.wait()
        before = _resumptions(killed)
        ended = killed.run("--address", nodes.address)
    assert ended.returncode == 0, ended.stderr
    assert before >= 2, "neither of the two kills hit a trial with a checkpoint"
    assert _resumptions(killed) > before
    assert killed.curves() == whole.curves()
    assert len({key[0] for key in whole.curves()}) == len(LOSSES)
    assert _kept_weights(killed) == _kept_weights(whole)
    assert_stores_agree(killed)


def _kill_workers() -> None:
    below = psutil.Process().children(recursive=True)
    workers = [one for one in below if one.name().startswith("ray::ResourceTrainable")]
    assert workers, [one.name() for one in below]
    for worker in workers:
        worker.kill()


def _wait_for_more(
    sweep: Sweep, process: "subprocess.Popen[str]", what: type[Event], more: int
) -> None:
    known = len(sweep.events(what))
    sweep.wait_for(process, what, known + more)


def _resumptions(sweep: Sweep) -> int:
    """How often a trial has gone on from a checkpoint."""
    return sum(bool(e.resumed_from) for e in sweep.events(TrialStarted))


def _kept_weights(sweep: Sweep) -> dict[str, bytes]:
    """The weights of each model that is kept, by the trial's key."""
    files = (sweep.runs / "artifacts" / "models").glob("*/model.safetensors")
    return {file.parent.name: file.read_bytes() for file in files}


def test_a_kept_decoder_is_exported_registered_scored_and_reproduced(
    whole: Sweep, decoder: Path, tmp_path: Path
) -> None:
    """It pools the last token, and its low-rank matrices are merged into it."""
    where, trial = ("--runs", whole.runs), f"{whole.name}#0"
    invoke(leaderboard, "export", trial, tmp_path / "exported", *where)
    registered = invoke(leaderboard, "register", trial, "decoder", *where).stdout
    assert "is now version 1 of decoder" in registered
    invoke(leaderboard, "reproduce", trial, "--to", tmp_path / "again", *where)
    assert "lasttoken" in (tmp_path / "again" / "sweep.yaml").read_text()
    scored = invoke(evaluate, trial, "--tasks", "geometry", "--data", "builtin", *where)
    assert "uniformity" in scored.stdout
    shown = json.loads(invoke(leaderboard, "show", trial, "--json", *where).stdout)
    exported = SentenceTransformer(str(tmp_path / "exported"), device="cpu")
    kept = SentenceTransformer(shown["model"], device="cpu")
    begun = SentenceTransformer(str(decoder), device="cpu")
    ours, theirs, before = (
        model.encode("Rain falls.", show_progress_bar=False) for model in (exported, kept, begun)
    )
    assert ours.tolist() == theirs.tolist() != before.tolist()
    assert exported[1].pooling_mode == "lasttoken"


def test_a_combination_that_the_library_cannot_compute_is_refused_with_its_line(
    base: Mapping[str, Any], tmp_path: Path
) -> None:
    losses = ["multiple_negatives", "global_orthogonal"]
    space = {"loss": losses, "matryoshka": [None, [32, 8]]}
    sweep = write_sweep(tmp_path, base, space=space)
    refused = invoke(main, sweep.file, "--runs", sweep.runs, code=1)
    assert "space.loss: a step with {loss: global_orthogonal, matryoshka: [32, 8]} fails" in (
        refused.stderr
    )
    assert not sweep.journal_file.exists()
    allowed = {"loss": losses, "matryoshka": {"choices": [[32, 8]], "when": {"loss": losses[0]}}}
    sweep.change(space=allowed)
    assert "2 trials" in invoke(main, sweep.file, "--runs", sweep.runs, "--dry-run").stdout


def test_the_driver_does_not_import_the_library(base: Mapping[str, Any], tmp_path: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from cse_platform.cli.sweep import main; "
        "ended = CliRunner().invoke(main, [sys.argv[1], '--dry-run']); "
        "assert ended.exit_code == 0, ended.output; "
        "assert 'sentence_transformers' not in sys.modules"
    )
    file = write_sweep(tmp_path, base).file
    subprocess.run([sys.executable, "-c", code, str(file)], check=True, cwd=tmp_path)


def test_a_sweep_on_a_large_encoder_is_rehearsed_on_mini(
    base: Mapping[str, Any], run_in_process: Any, tmp_path: Path
) -> None:
    del run_in_process
    fixed = {"max_length": 1024, "pooler": "lasttoken", "lora": {"rank": 4}, "batch_size": 8}
    space = {"loss": ["multiple_negatives"], "matryoshka": [[1024, 512, 64]]}
    sweep = write_sweep(tmp_path, base, fixed=fixed, space=space, backbone="lab/decoder")
    ended = invoke(main, sweep.file, "--runs", sweep.runs, "--smoke")
    assert "fixed.max_length: 1024 becomes 512" in ended.stdout
    assert "[192, 191, 64]" in ended.stdout
    assert "ok      five: " in ended.stdout
