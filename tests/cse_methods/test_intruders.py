import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from started_papers import BUILTIN

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError, CheckpointError
from cse_methods.training.checkpoint import STATE_FILE, Best, load_checkpoint
from cse_methods.training.loop import start
from cse_methods.training.objective import Objective
from cse_methods.training.schedule import Schedule
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

SENTENCES = Corpus("some", ["a cat sat", "two dogs ran"], sha256="0")


class Intruder:
    """Makes a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.trace),)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What is there once an intruder's code has run."""
    trace = tmp_path / "it has run"
    pickle.loads(pickle.dumps(Intruder(trace)))
    assert trace.exists()  # the intruder does what it is meant to
    trace.rmdir()
    return trace


def test_a_checkpoint_with_code_is_refused(trace: Path, tiny_bert: Path, tmp_path: Path) -> None:
    settings = {"backbone": str(tiny_bert), "batch_size": 4, "max_steps": 2}
    config = TrainingConfig.model_validate(BUILTIN | settings)
    state = start(config, 0, Schedule.of(config, sentences=80), lambda _: Objective())
    torch.save(Intruder(trace), tmp_path / STATE_FILE)
    with pytest.raises(CheckpointError):
        load_checkpoint(tmp_path, state, Best("dev/stsb_spearman"))
    assert not trace.exists()


def test_cached_vectors_with_code_are_refused(trace: Path, tiny_bert: Path, tmp_path: Path) -> None:
    """What another user put into a shared cache is made anew."""
    teacher = TeacherSpec(model=str(tiny_bert))
    expected = np.array(teacher_vectors(teacher, SENTENCES, max_length=8, cache=tmp_path / "cache"))
    (file,) = (tmp_path / "cache").glob("*.npy")
    np.save(file, np.array([Intruder(trace)], dtype=object), allow_pickle=True)
    found = teacher_vectors(teacher, SENTENCES, max_length=8, cache=tmp_path / "cache")
    assert not trace.exists()
    assert (found == expected).all()


def test_weights_and_folders_with_code_are_refused(
    trace: Path, tiny_bert: Path, tmp_path: Path
) -> None:
    """A model from the hub can name a class of its own."""
    folder = shutil.copytree(tiny_bert, tmp_path / "weights")
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Intruder(trace)}, folder / "pytorch_model.bin")
    own = shutil.copytree(tiny_bert, tmp_path / "code")
    settings = json.loads((own / "config.json").read_text())
    classes = {"AutoConfig": "own.Own", "AutoModel": "own.Own"}
    settings |= {"model_type": "intruder", "auto_map": classes}
    (own / "config.json").write_text(json.dumps(settings))
    (own / "own.py").write_text(f"import os\nos.mkdir({str(trace)!r})\nclass Own: pass\n")
    for place in (folder, own):
        with pytest.raises(BackboneError):
            load_encoder(str(place))
        assert not trace.exists()
