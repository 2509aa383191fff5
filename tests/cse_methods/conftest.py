import json
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_families import save_tiny
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from cse_methods.testing import RecordedRun

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One stored reference case, in float64."""

    params: dict[str, Any]
    inputs: Tensors
    """Leaves that gather gradients, if the case has gradients, where they are real numbers."""
    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]

    def is_reproduced_by(
        self,
        compute: Callable[[Tensors, dict[str, Any]], dict[str, Any]],
        *,
        without: Set[str] = frozenset(),
    ) -> None:
        """Assert that `compute` gives all outputs but `without`, and the gradients of `loss`."""
        gradients = {} if "loss" in without else self.gradients
        before = {key: value.detach().clone() for key, value in self.inputs.items()}
        values = compute(self.inputs, self.params)
        for key in self.outputs.keys() - without:
            found = values[key].detach() if torch.is_tensor(values[key]) else values[key]
            np.testing.assert_allclose(found, self.outputs[key], rtol=1e-9, atol=1e-12, err_msg=key)
        if gradients:
            values["loss"].backward()
        for key, value in self.inputs.items():
            assert torch.equal(value.detach(), before[key]), f"{key} was changed in place"
            expected = gradients.get(key)
            assert (value.grad is None) == (expected is None), f"a gradient of {key}, or none"
            if expected is not None:
                np.testing.assert_allclose(value.grad, expected, rtol=1e-7, atol=1e-12, err_msg=key)


@pytest.fixture(scope="session")
def golden(shared: Path) -> Callable[[str], Case]:
    """Reads the reference case of a name."""

    def read(name: str) -> Case:
        with np.load(shared / "reference" / f"{name}.npz", allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}

        def having(prefix: str) -> dict[str, np.ndarray]:
            return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

        inputs = {k: torch.from_numpy(v) for k, v in having("in_").items()}
        gradients = having("grad_")
        for value in inputs.values():
            value.requires_grad_(bool(gradients) and value.is_floating_point())
        return Case(json.loads(str(arrays["params"])), inputs, having("out_"), gradients)

    return read


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Sums in one order: curves repeat bit for bit, also in a process of their own."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def new_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RecordedRun]:
    """Makes a recording run from `seed` and `resume_from`, with a folder of its own."""

    def make(*, seed: int = 0, resume_from: Path | None = None) -> RecordedRun:
        return RecordedRun(tmp_path_factory.mktemp("run"), seed, resume_from)

    return make


@pytest.fixture(scope="session")
def masked_lm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Folder of a random masked language model with the word pieces of the encoder in a folder."""

    @cache
    def save(encoder: Path) -> Path:
        folder = tmp_path_factory.mktemp("masked-lm")
        with torch.random.fork_rng():
            torch.manual_seed(2)
            config = AutoConfig.from_pretrained(encoder)
            AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random BERT: width 32, 2 layers, 64 positions, WordPiece."""
    return save_tiny("bert", tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a random RoBERTa: width 32, 2 layers, 64 positions from 2 on, byte-level BPE."""
    return save_tiny("roberta", tmp_path_factory.mktemp("tiny-roberta"))


@pytest.fixture(params=["tiny_bert", "tiny_roberta"])
def tiny_folder(request: pytest.FixtureRequest) -> Path:
    """Folder of a random encoder, of each family in turn."""
    path: Path = request.getfixturevalue(request.param)
    return path
