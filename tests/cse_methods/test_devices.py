from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import torch
from device_ledger import LATE, Ledger, Wait, device_ledger
from method_variants import cases_of, settled, write_lab
from torch import Tensor

from cse_methods.config import TrainingConfig
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.encoders import encoder as encoding
from cse_methods.errors import BackboneError, TrainingError
from cse_methods.evaluation.embeddings import StoredEmbeddings
from cse_methods.evaluation.models import open_model
from cse_methods.evaluation.test_sets.transfer import load_transfer_test
from cse_methods.papers.simcse import SimCSE, SimCSEConfig
from cse_methods.registry import available_methods, get_method
from cse_methods.tasks import TransferTask
from cse_methods.testing import RecordedRun
from cse_methods.training.checkpoint import STATE_FILE
from cse_methods.training.divergence import STEPS_A_LOOK
from cse_methods.training.loop import train
from cse_methods.training.neighbours import nearest_sentences
from cse_methods.training.teachers import TeacherSpec, teacher_vectors
from cse_methods.transfer.protocol import TransferProtocol

SHORT = {"batch_size": 8, "max_steps": 2, "eval_steps": 1, "warmup_ratio": 0.0}
METHODS = [name for name in available_methods() if name not in ("st", "untrained")]
CASES = {name: (method, variant) for method in METHODS for name, variant in cases_of(method)}
FIRST = {method: cases_of(method)[0][0] for method in METHODS}
"""The first case of each method."""
SENTENCES = list(builtin_corpus()[:8])
WAITING = {"whitenedcse-whitening": 3, "diffcse": 1}
"""Waits of a step, of those that need any: eigenvectors of all coordinates, whose matrix and values
are looked at, and whose solver says whether it has found them; rows that a generator has written,
which the host reads to pack them."""
BOTH_SCORED = "ct-negatives"
"""A method that has two encoders scored at each dev point but the first."""
RESUMED = "mocose-queue_size-queue_start"
"""The case that is resumed in every run of the tests; it has a queue and an average."""
QUICK = (RESUMED, BOTH_SCORED, FIRST["whitenedcse"])
"""First cases that are tried in every run: those that wait, and those with state of their own."""


@dataclass(frozen=True)
class Lab:
    """A small corpus and dev set, and what else the variants name."""

    settings: dict[str, Any]
    places: dict[str, str]
    folder: Path

    def configured(self, case: str, **training: Any) -> TrainingConfig:
        method, variant = CASES[case]
        config = get_method(method).config
        own = settled(variant, self.places)
        validated = config.model_validate(self.settings | SHORT | training | own)
        assert isinstance(validated, TrainingConfig)
        return validated

    def train(
        self,
        case: str,
        config: TrainingConfig,
        resume_from: Path | None = None,
        *,
        late: bool = False,
    ) -> RecordedRun:
        run = RecordedRun(Path(mkdtemp(dir=self.folder)), 1, resume_from, late=late)
        get_method(CASES[case][0]).train(config, run)
        return run


@pytest.fixture(scope="module")
def lab(tmp_path_factory, tiny_bert, masked_lm) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    settings, places = write_lab(folder, tiny_bert, masked_lm(tiny_bert))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(folder / "cache"))
        # Equal batches at test time have equal padding, and so equal vectors to the last bit.
        patch.setitem(encoding.PIECES_AT_ONCE, "cuda", encoding.PIECES_AT_ONCE["cpu"])
        yield Lab(settings, places, folder)


def waits_of_a_step(case: str, config: TrainingConfig) -> int:
    """A scaled loss with an optimiser that is not fused makes one more: is a gradient infinite?"""
    name, variant = CASES[case]
    known = WAITING.get(case, WAITING.get(name, 0) + WAITING.get(variant.get("base", ""), 0))
    return known + (config.precision == "fp16" and config.optimizer != "adamw")


Curve = Mapping[int, Mapping[str, float]]
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
A_SWAP = 12 * 17 / (20 * (20**2 - 1))
"""What Spearman's correlation of 20 pairs changes by at most when two neighbours change places
whose gold ranks lie furthest apart (2.5 and 19: six scores of three or four pairs each)."""


def waits_within(ledger: Ledger, function: str) -> Counter[Wait]:
    return Counter({w: n for w, n in ledger.waits.items() if function in w.functions})


def shown(waits: Counter[Wait]) -> str:
    return "\n".join(f"{n} x {w.reason} at {w.line}" for w, n in waits.items())


def check_waits(
    ledger: Ledger, *, steps: int, spans: int, points: int, a_step: int, case: str
) -> None:
    """Between dev points nothing waits; one waits for its losses and one for its vectors."""
    training = waits_within(ledger, "train_until")
    losses = {wait for wait in training if wait.functions[0] == "means"}
    assert sum(training[wait] for wait in losses) == spans
    training -= waits_within(ledger, "metrics")  # of a dev point
    others = Counter({wait: n for wait, n in training.items() if wait not in losses})
    assert sum(others.values()) == steps * a_step, shown(others)
    encoded = waits_within(ledger, "encode_rows") & waits_within(ledger, "evaluate")
    assert sum(encoded.values()) == points + spans * (case == BOTH_SCORED), shown(encoded)


def arithmetic(ledger: Ledger, function: str) -> set[str]:
    """What products are computed in within a function of the package."""
    return {kind for kind, functions in ledger.products if function in functions}


def check_curves(curve: Curve, expected: Curve, *, precision: str = "fp32") -> None:
    """Equal but for rounding: on some processors kernels round by the layout of a copy.

    Adam then moves a weight whose gradient is near zero the other way, so curves differ by more
    than a unit of the precision after a few steps; another batch or dropout differs by far more
    than is allowed here. Dev pairs that are nearly equal may change places.
    """
    unit = 5e-4 if precision == "fp32" else float(torch.finfo(HALVES[precision]).eps)
    assert curve.keys() == expected.keys()
    for step, metrics in expected.items():
        assert curve[step].keys() == metrics.keys()
        for name, value in metrics.items():
            near = {"abs": 2 * A_SWAP} if name.endswith("spearman") else {"rel": unit, "abs": unit}
            assert curve[step][name] == pytest.approx(value, **near), name


def quick_and_slow(quick: list[Any], every: list[Any]) -> list[Any]:
    """All cases, of which those that are not quick are tried by `make test-slow`."""
    slow = [case for case in every if case not in quick]
    return [*quick, *(pytest.param(*case, marks=pytest.mark.slow) for case in slow)]


@pytest.mark.parametrize(
    ("case", "resumed"),
    quick_and_slow([(c, c == RESUMED) for c in QUICK], [(c, True) for c in CASES]),
)
def test_a_trial_on_a_gpu_equals_that_on_the_cpu_and_waits_only_at_dev_points(
    case, resumed, lab
) -> None:
    config = lab.configured(case, eval_steps=1 if resumed else 2)
    spans = 2 // config.eval_steps
    expected = lab.train(case, config)
    with device_ledger() as ledger:
        run = lab.train(case, config, late=True)
    assert sum(waits_within(ledger, "copied").values()) == spans - 1
    check_curves(run.curve, expected.curve)
    of_step = waits_of_a_step(case, config)
    check_waits(ledger, steps=2, spans=spans, points=1 + spans, a_step=of_step, case=case)
    if not resumed:
        return
    with device_ledger() as ledger:
        rest = lab.train(case, config, run.folder / "1")
    check_curves(rest.curve, {2: expected.curve[2]})
    check_waits(ledger, steps=1, spans=1, points=1, a_step=of_step, case=case)


HALF = [(FIRST["simcse"], "bf16"), (FIRST["mocose"], "fp16")]


@pytest.mark.parametrize(
    ("case", "precision"), quick_and_slow(HALF, [(c, half) for half in HALVES for c in CASES])
)
def test_a_trial_in_half_precision_waits_only_at_dev_points(
    case: str, precision: str, lab: Lab
) -> None:
    config = lab.configured(case, precision=precision, eval_steps=2)
    expected = lab.train(case, config)
    with device_ledger() as ledger:
        run = lab.train(case, config)
    check_curves(run.curve, expected.curve, precision=precision)
    check_waits(ledger, steps=2, spans=1, points=2, a_step=waits_of_a_step(case, config), case=case)


IN_TRAINING = {"tf32": {}, "float32": {"tf32": False}, "bfloat16": {"precision": "bf16"}}
"""By what encoders multiply in: the settings that say so."""
MULTIPLYING = [("simcse", "tf32"), ("infocse", "bfloat16")]


@pytest.mark.parametrize(
    ("method", "kind"),
    quick_and_slow(MULTIPLYING, [*(("simcse", kind) for kind in IN_TRAINING), ("diffcse", "tf32")]),
)
def test_encoders_multiply_in_the_precision_of_the_trial_and_losses_in_float32(
    method: str, kind: str, lab: Lab
) -> None:
    settings: dict[str, Any] = {"gradient_accumulation": 2, "eval_steps": 2, **IN_TRAINING[kind]}
    config = lab.configured(FIRST[method], **settings)
    with device_ledger() as ledger:
        lab.train(FIRST[method], config)
    assert arithmetic(ledger, "_encode_inputs") == arithmetic(ledger, "encode_rows") == {kind}
    for function in ("_detect_replaced", "_guess_hidden"):  # further models of diffcse and infocse
        assert arithmetic(ledger, function) <= {kind}
    assert arithmetic(ledger, "cosine_matrix") == {"float32"}
    assert arithmetic(ledger, "uniformity") == {"float64"}
    # What flows back is in TF32 throughout, or in the types that it left.
    assert arithmetic(ledger, "optimise") == (
        {"bfloat16", "float32"} if kind == "bfloat16" else {kind}
    )
    assert torch.backends.cuda.matmul.fp32_precision == "none"


def test_a_checkpoint_goes_on_where_there_is_a_gpu_and_where_there_is_none(lab: Lab) -> None:
    config = lab.configured("simcse")
    on_cpu = lab.train("simcse", config)
    with device_ledger():
        on_gpu = lab.train("simcse", config)
        check_curves(lab.train("simcse", config, on_cpu.folder / "1").curve, {2: on_cpu.curve[2]})
    there = lab.train("simcse", config, on_gpu.folder / "1")
    check_curves(there.curve, {2: on_cpu.curve[2]})
    (group, *_), (stored, *_) = (
        torch.load(run.folder / "2" / STATE_FILE)["optimizer"]["param_groups"]
        for run in (on_gpu, there)
    )
    assert group["capturable"]
    assert group["lr"].dtype == torch.float32
    assert (stored["capturable"], stored["lr"]) == (False, pytest.approx(group["lr"].item()))


@pytest.mark.parametrize(("task",), quick_and_slow([("sst2",)], [("cr",), ("trec",)]))
def test_transfer_classifiers_are_trained_on_the_gpu(task: TransferTask) -> None:
    """One task of each kind: nested folds, a dev set, folds and a test set."""
    generator = torch.Generator().manual_seed(1)
    vectors: dict[str, Tensor] = {}

    def embed(sentences: Sequence[str]) -> Tensor:
        new = [sentence for sentence in sentences if sentence not in vectors]
        vectors.update(zip(new, torch.randn(len(new), 20, generator=generator), strict=True))
        return torch.stack([vectors[sentence] for sentence in sentences])

    protocol = TransferProtocol(kfold=3, optimizer="rmsprop", tenacity=0, epoch_size=1)
    test = load_transfer_test(task, "builtin")
    expected = test.score(embed, protocol)
    with device_ledger() as ledger:
        assert test.score(embed, protocol) == expected
    assert arithmetic(ledger, "measure_accuracies")


def on_both(compute: Callable[[Path], Any], folder: Path) -> tuple[Any, Any]:
    """What is computed on the CPU and on the GPU, where work is done."""
    for place in ("cpu", "cuda"):
        (folder / place).mkdir()
    expected = compute(folder / "cpu")
    with device_ledger() as ledger:
        found = compute(folder / "cuda")
    assert ledger.operations > 50
    return expected, found


def test_an_untrained_trial_on_a_gpu_equals_that_on_the_cpu(lab: Lab, tmp_path: Path) -> None:
    method = get_method("untrained")
    ((_, variant),) = cases_of("untrained")
    config = method.config.model_validate(lab.settings | variant)

    def curve(folder: Path) -> Curve:
        run = RecordedRun(folder)
        method.train(config, run)
        method.train(config, RecordedRun(folder / "resumed", 0, folder / "1"))
        return run.curve

    expected, found = on_both(curve, tmp_path)
    check_curves(found, expected)


def test_teachers_are_read_and_compared_on_the_gpu(lab: Lab, tmp_path: Path) -> None:
    teacher = TeacherSpec(model=lab.places["TINY"])
    corpus = load_corpus([CorpusSpec(name="builtin", first=30)], "builtin")

    def vectors_and_nearest(folder: Path) -> list[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CSE_CACHE", str(folder))
            uses = (teacher_vectors, nearest_sentences)
            return [np.array(use(teacher, corpus, max_length=16)) for use in uses]

    for ours, theirs in zip(*on_both(vectors_and_nearest, tmp_path), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("slicing_length",), quick_and_slow([(8,)], [(None,)]))
def test_an_evaluation_on_a_gpu_reads_the_same_vectors(slicing_length, lab, tmp_path) -> None:
    def vectors(folder: Path) -> Tensor:
        model = open_model(lab.places["TINY"], slicing_length=slicing_length)
        stored = StoredEmbeddings(model, SENTENCES, folder=folder, progress=lambda *_: None)
        return stored(SENTENCES)

    assert torch.equal(*on_both(vectors, tmp_path))


def ask_for_too_much(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB. GPU 0 …")


class FullMemory(SimCSE):
    """Asks for more than there is at its second step."""

    def losses(self, first: Tensor, second: Tensor, **others: Any) -> dict[str, Tensor]:
        if others["batch"].step == 2:
            ask_for_too_much()
        return super().losses(first, second, **others)


def test_a_full_gpu_raises_an_error_with_advice(lab: Lab, tmp_path: Path) -> None:
    config = lab.configured("simcse", gradient_accumulation=2)
    assert isinstance(config, SimCSEConfig)
    corpus = load_corpus(config.corpus, config.data)
    told = (
        r"memory is full while it trains with batch_size 8, .* \(CUDA out of memory\); set "
        r"gradient_accumulation: 4, .* smaller batch_size, or .* by a larger resources.gpu"
    )
    with device_ledger(), pytest.raises(TrainingError, match=told):
        train(config, RecordedRun(tmp_path), corpus=corpus, objective=lambda _: FullMemory(config))


class Diverging(SimCSE):
    """Its loss is infinite from step 3 on."""

    def losses(self, first: Tensor, second: Tensor, **others: Any) -> dict[str, Tensor]:
        found = super().losses(first, second, **others)
        self.last = others["batch"].step
        return {n: part * (torch.inf if self.last >= 3 else 1) for n, part in found.items()}


def test_a_diverged_loss_on_a_gpu_ends_the_trial_without_waits(lab: Lab, tmp_path: Path) -> None:
    config = lab.configured("simcse", max_steps=40, eval_steps=40)
    assert isinstance(config, SimCSEConfig)
    corpus = load_corpus(config.corpus, config.data)
    objective = Diverging(config)
    with device_ledger() as ledger, pytest.raises(TrainingError, match="inf at step 3, first in"):
        train(config, RecordedRun(tmp_path), corpus=corpus, objective=lambda _: objective)
    assert objective.last == STEPS_A_LOOK + LATE - 1
    assert not waits_within(ledger, "train_until")


@pytest.mark.parametrize("within", ["encode", "dev point"])
def test_a_full_gpu_outside_training_raises_an_error_with_advice(
    within: str, lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A dev point's advice is not that of a step: its batches are others."""
    told = r"full while it encodes \d+ sentences .* \(CUDA out of memory\); .*resources.gpu"
    monkeypatch.setattr(encoding.Encoder, "forward", ask_for_too_much)
    with device_ledger(), pytest.raises(BackboneError, match=told):
        if within == "encode":
            corpus = load_corpus([CorpusSpec(name="builtin", first=30)], "builtin")
            teacher_vectors(TeacherSpec(model=lab.places["TINY"]), corpus, max_length=13)
        else:
            lab.train("simcse", lab.configured("simcse"))


def test_deterministic_kernels_are_used_during_the_trial_only(lab: Lab, tmp_path: Path) -> None:
    found: list[bool] = []

    class Run(RecordedRun):
        def report(self, **point: Any) -> None:
            found.append(torch.are_deterministic_algorithms_enabled())

    settings = torch.backends.cuda.mem_efficient_sdp_enabled()
    for wanted in (True, False):
        config = lab.configured("simcse", eval_steps=2, deterministic=wanted)
        get_method("simcse").train(config, Run(tmp_path))
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cuda.mem_efficient_sdp_enabled() == settings
    assert found == [True, True, False, False]
