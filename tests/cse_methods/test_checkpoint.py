import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from cse_methods.config import TrainingConfig
from cse_methods.contract import BEST_FOLDER
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import CheckpointError
from cse_methods.training.checkpoint import (
    STATE_FILE,
    Best,
    SaveCheckpoint,
    gather_state,
    load_checkpoint,
)
from cse_methods.training.loop import start
from cse_methods.training.objective import Objective
from cse_methods.training.schedule import Schedule

SETTINGS = {
    "corpus": "builtin",
    "data": "builtin",
    "dev": {"checkpoint": "sickr", "search": "sickr", "also": []},
    "batch_size": 4,
    "max_steps": 12,
    "eval_steps": 2,
}


def started(backbone: Path, *, seed: int = 0, **others: Any) -> Any:
    config = TrainingConfig.model_validate(SETTINGS | {"backbone": str(backbone)} | others)
    return start(config, seed, Schedule.of(config, sentences=80), lambda _: Objective())


def scored(value: float) -> dict[str, float]:
    return {"dev/stsb_spearman": value}


def saved(folder: Path, state: Any) -> Path:
    best = Best("dev/stsb_spearman")
    best.consider(1, scored(0.5), state.student.encoder)
    SaveCheckpoint(partial(gather_state, state), best, last=False)(folder)
    return folder


def test_of_equally_good_steps_the_earliest_is_kept(tiny_bert: Path) -> None:
    encoder = load_encoder(str(tiny_bert))
    weight = encoder.model.embeddings.word_embeddings.weight
    for values, step in (
        ([0.5, 0.7, 0.7], 2),
        ([-0.2], 1),
        ([math.nan, -0.1, math.nan], 2),
        ([0.3, math.nan, 0.2], 1),
    ):
        best = Best("dev/stsb_spearman")
        for number, value in enumerate(values, start=1):
            torch.nn.init.constant_(weight, number)
            best.consider(number, scored(value), encoder)
        assert (best.step, best.metrics) == (step, scored(values[step - 1]))
        assert best.folder is not None
        kept = load_encoder(best.folder.name).model.embeddings.word_embeddings.weight
        assert_close(kept, torch.full_like(kept, step))


def test_the_best_encoder_is_written_once_and_later_checkpoints_link_it(
    tiny_bert, tmp_path
) -> None:
    state, best = started(tiny_bert), Best("dev/stsb_spearman")
    weight = state.student.encoder.model.embeddings.word_embeddings.weight
    torch.nn.init.constant_(weight, 1)
    best.consider(1, scored(0.5), state.student.encoder)
    save = SaveCheckpoint(partial(gather_state, state), best, last=False)
    write = save.copied()
    save(tmp_path / "now")
    torch.nn.init.constant_(weight, 2)
    state.step = 2
    best.consider(2, scored(0.6), state.student.encoder)
    write(tmp_path / "later")
    first, second = (
        tmp_path / name / BEST_FOLDER / "model.safetensors" for name in ("now", "later")
    )
    assert first.samefile(second)
    for folder in ("now", "later"):
        resumed, known = started(tiny_bert), Best("dev/stsb_spearman")
        load_checkpoint(tmp_path / folder, resumed, known)
        assert (resumed.step, known.step, known.metrics) == (0, 1, scored(0.5))
        kept = load_encoder(str(tmp_path / folder / BEST_FOLDER))
        for encoder in (kept, resumed.student.encoder):
            assert encoder.model.embeddings.word_embeddings.weight.unique().tolist() == [1]


def test_a_checkpoint_restores_all_that_a_step_changes(tiny_bert: Path, tmp_path: Path) -> None:
    state = started(tiny_bert, precision="fp16")
    torch.autograd.backward(state.student.head.linear.bias.sum())
    state.optimizer.step()
    state.scaler.load_state_dict(state.scaler.state_dict() | {"scale": 32.0, "_growth_tracker": 7})
    state.step = 3
    saved(tmp_path, state)
    expected = torch.rand(3)
    fresh, best = started(tiny_bert, seed=0, precision="fp16"), Best("dev/stsb_spearman")
    load_checkpoint(tmp_path, fresh, best)
    assert_close(torch.rand(3), expected, rtol=0, atol=0)
    assert fresh.step == 3
    assert fresh.scaler.state_dict()["scale"] == 32.0
    assert fresh.scaler.state_dict()["_growth_tracker"] == 7
    for mine, theirs in ((fresh.student, state.student), (fresh.optimizer, state.optimizer)):
        assert_close(mine.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    assert (best.step, best.metrics) == (1, scored(0.5))


def test_a_checkpoint_of_another_trial_is_refused(
    tiny_bert: Path, tiny_roberta: Path, tmp_path: Path
) -> None:
    saved(tmp_path, started(tiny_bert))
    for other in (
        started(tiny_bert, seed=1),
        started(tiny_bert, learning_rate=1e-4),
        started(tiny_bert, corpus="wiki1m"),
        started(tiny_roberta),
    ):
        with pytest.raises(CheckpointError, match="checkpoint of another configuration or seed"):
            load_checkpoint(tmp_path, other, Best("dev/stsb_spearman"))
    # The data folder may move.
    load_checkpoint(tmp_path, started(tiny_bert, data=str(tmp_path)), Best("dev/stsb_spearman"))


def test_an_incomplete_checkpoint_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "2", started(tiny_bert))
    file, whole = folder / STATE_FILE, (folder / STATE_FILE).read_bytes()
    fresh = started(tiny_bert)

    def is_refused(reason: str) -> None:
        told = f"is an incomplete checkpoint: {reason}; resume from an"
        with pytest.raises(CheckpointError, match=told):
            load_checkpoint(folder, fresh, Best("dev/stsb_spearman"))

    for content in (whole[: len(whole) // 2], b""):
        file.write_bytes(content)
        is_refused(f"its {STATE_FILE} cannot be read")
    file.rename(folder / f"{STATE_FILE}.part")
    is_refused(f"it has no {STATE_FILE}")
    file.write_bytes(whole)
    (folder / BEST_FOLDER).rename(folder / "elsewhere")
    is_refused(f"it has no folder {BEST_FOLDER}")
