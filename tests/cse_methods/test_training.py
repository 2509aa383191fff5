import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from cse_methods.config import OptimizerName, TrainingConfig
from cse_methods.contract import BEST_FOLDER
from cse_methods.data.corpus import Corpus
from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.data.dev_sets import load_dev_pairs
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.papers import simcse
from cse_methods.registry import get_method
from cse_methods.training.checkpoint import Best
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.loop import losses_of, optimise, start, train, training_batches
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.schedule import Schedule
from cse_methods.training.student import Batch, Student, StudentProtocol, dropout_views

CORPUS = Corpus("numbers", [f"the pilot counts {number}" for number in range(22)], "")

SICKR = {"checkpoint": "sickr", "search": "sickr", "also": []}


def settings(backbone: Path | str = "mini", **others: Any) -> TrainingConfig:
    """Four sentences a step, five steps of 0.1 each to go by hand."""
    given = {"backbone": str(backbone), "corpus": "builtin", "data": "builtin"}
    chosen = {"batch_size": 4, "max_steps": 5, "eval_steps": 2, "learning_rate": 0.1}
    return TrainingConfig.model_validate(given | chosen | others)


def schedule(sentences: int = 22, **others: Any) -> Schedule:
    return Schedule.of(settings(**others), sentences=sentences)


class Made(Objective):
    """Gives the losses that a function makes, or else one that nothing but itself counts for."""

    def __init__(self, forward: Callable[..., Any] | None = None, *encoders: Encoder) -> None:
        super().__init__()
        self.make, self.encoders = forward, [encoders]
        self.weight = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = {"contrastive": self.weight.square()}
        return self.make(self, student, batch) if self.make else parts

    def evaluation_encoders(self, student: Student) -> Sequence[Encoder]:
        return self.encoders[0] or super().evaluation_encoders(student)


def started(config: TrainingConfig, *, seed: int = 0, objective: Objective | None = None) -> Any:
    plan = Schedule.of(config, sentences=len(CORPUS.sentences))
    return start(config, seed, plan, lambda _: objective or Objective())


def trained(config: TrainingConfig, run: Any, objective: Objective) -> dict[str, float]:
    return train(config, run, corpus=CORPUS, objective=lambda _: objective)


@pytest.fixture(scope="module")
def small_dev(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The first pairs of a dev set alone: quick to score in half precision, too."""
    pairs = load_dev_pairs(DevSelection(), "stsb", "builtin")
    rows = zip(pairs.first[:60], pairs.second[:60], pairs.gold[:60], strict=True)
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    file = tmp_path_factory.mktemp("dev") / "small.tsv"
    file.write_text("\n".join(lines), encoding="utf-8")
    own = {"file": str(file), "scale": (0, 5)}
    return {"checkpoint": own, "search": own, "also": []}


def test_steps_and_dev_points_follow_epochs_and_eval_steps() -> None:
    table: list[tuple[dict[str, Any], int]] = [
        ({"max_steps": None}, 5),  # 22 sentences are 5 whole batches of 4
        *(({"max_steps": None, "epochs": n}, steps) for n, steps in ((3, 15), (0.5, 3), (1.25, 7))),
        *(({"max_steps": 2, "epochs": 3}, 2), ({"max_steps": 40}, 40)),
    ]
    assert [(others, schedule(**others).total) for others, _ in table] == table
    assert schedule(sentences=4).per_epoch == 1
    with pytest.raises(TrainingError, match="batch_size 4 is more than the corpus's 3 sentences"):
        schedule(sentences=3)


def test_the_learning_rate_warms_up_and_follows_its_schedule() -> None:
    plan = schedule(max_steps=10, warmup_ratio=0.4)
    expected = [0, 1 / 4, 2 / 4, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0]
    assert [plan.learning_rate_factor(step) for step in range(11)] == pytest.approx(expected)
    plan = schedule(max_steps=6, warmup_ratio=0.3, learning_rate_schedule="constant")
    assert [plan.learning_rate_factor(step) for step in range(7)] == [0, 1 / 2, 1, 1, 1, 1, 1]
    plan = schedule(max_steps=6, learning_rate_schedule={"4": 0.25, "1": 0.5})
    assert [plan.learning_rate_factor(step) for step in range(6)] == [1, 1, 0.5, 0.5, 0.5, 0.25]


def orders(state: Any, *, until: int) -> list[list[int]]:
    """The corpus rows of each step."""
    found = []
    for batch in training_batches(state, CORPUS, until=until):
        assert batch.sentences == [CORPUS.sentences[row] for row in batch.rows]
        found.append(batch.rows.tolist())
        state.step += 1
    return found


def test_every_epoch_has_its_own_order_and_the_step_gives_the_position(tiny_bert) -> None:
    config = settings(tiny_bert, max_steps=10)
    rows = orders(started(config, seed=3), until=10)
    first, second = np.ravel(rows[:5]).tolist(), np.ravel(rows[5:]).tolist()
    assert len(set(first)) == len(set(second)) == 20  # whole batches: two of 22 are left out
    assert set(first) | set(second) <= set(range(22))
    assert first != second
    assert orders(started(config, seed=4), until=5) != rows[:5]
    state = started(config, seed=3)
    for step in (1, 4, 5, 7):
        state.step = step
        assert orders(state, until=10) == rows[step:]
    state.step = 3
    batch = next(training_batches(state, CORPUS, until=6))
    assert (batch.step, batch.total_steps) == (4, 10)


def pushed_bias(state: Any, *, steps: int) -> Tensor:
    """The head's bias after steps down 3 times its sum: its gradient is 3 everywhere."""
    bias: Tensor = state.student.head.linear.bias
    for _ in range(steps):
        optimise(state, {"contrastive": bias.sum(), "rank": 2 * bias.sum()})
    return bias


def test_optimizer_steps_equal_hand_worked_ones(tiny_bert: Path) -> None:
    """Under a constant gradient, Adam moves by the learning rate: 0.1 times 1, 4/5, 3/5, …"""
    state = started(settings(tiny_bert))
    before = [p.clone() for p in state.student.encoder.parameters()]
    bias = pushed_bias(state, steps=1)
    assert_close(bias, torch.full_like(bias, -0.1))
    bias = pushed_bias(state, steps=4)
    assert_close(bias, torch.full_like(bias, -0.1 * (1 + 4 / 5 + 3 / 5 + 2 / 5 + 1 / 5)))
    assert state.step == 5
    assert bias.grad is None
    assert_close(list(state.student.encoder.parameters()), before, rtol=0, atol=0)


class Grouped(Objective):
    """A layer of its own that learns ten times as fast and decays whole."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 1)

    def parameter_groups(self, student: Student) -> list[ParameterGroup]:
        return [ParameterGroup([self.layer], learning_rate_factor=10, weight_decay=0.02)]


def test_a_group_has_its_own_learning_rate_and_weight_decay(tiny_bert: Path) -> None:
    """AdamW: 1 - rate * decay * 1, and then the step of the rate; of the others, no bias decays."""
    state = started(settings(tiny_bert, weight_decay=0.5), objective=Grouped())
    layer, linear = state.objective.layer, state.student.head.linear
    expected = (
        (layer.weight, -0.02),
        (layer.bias, -0.02),
        (linear.weight, 0.85),
        (linear.bias, 0.9),
    )
    for parameter, _ in expected:
        torch.nn.init.ones_(parameter)
    optimise(state, {"contrastive": sum(parameter.sum() for parameter, _ in expected)})
    for parameter, value in expected:
        assert_close(parameter, torch.full_like(parameter, value), rtol=0, atol=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_all_groups_are_clipped_together(precision: str, tiny_bert: Path) -> None:
    """33 gradients of 3 and 32 of 4 have norm sqrt(33 * 9 + 32 * 16) = 28.44 before, 1 after."""
    state = started(settings(tiny_bert, precision=precision), objective=Grouped())
    layer, bias = state.objective.layer, state.student.head.linear.bias
    optimise(state, {"contrastive": 3 * (layer.weight.sum() + layer.bias.sum()) + 4 * bias.sum()})
    averages = [state.optimizer.state[p]["exp_avg"] for p in (layer.weight, layer.bias, bias)]
    assert len(state.optimizer.param_groups) == 2
    assert_close(averages[0], torch.full((1, 32), 0.3 / 28.4429), rtol=1e-5, atol=0)
    norm = torch.cat([average.flatten() for average in averages]).norm()
    assert norm.item() == pytest.approx(0.1, rel=1e-5)


RESUMED: list[dict[str, Any]] = [
    {"optimizer": "rmsprop", "weight_decay": 0.1},
    {"precision": "fp16", "gradient_accumulation": 2},
    *({"optimizer": one, "weight_decay": 0.1} for one in get_args(OptimizerName)[:-1]),
    {"precision": "bf16"},
    {"precision": "fp16", "max_grad_norm": None},
]
"""The first two are tried in every run."""


@pytest.mark.parametrize(
    "others",
    [*RESUMED[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in RESUMED[2:])],
    ids=lambda others: "-".join(map(str, others.values())),
)
def test_every_optimizer_and_precision_resumes_bit_for_bit(
    others: dict[str, Any], tiny_bert: Path, small_dev: dict[str, Any], new_run: Callable[..., Any]
) -> None:
    own = {"learning_rate": 1e-3, "dev": small_dev, "corpus": {"name": "builtin", "first": 40}}
    plan = {"learning_rate_schedule": {1: 0.5, 3: 0.25}}
    given = settings(tiny_bert).model_dump() | own | plan | others
    config, run = simcse.SimCSEConfig.model_validate(given), new_run()
    get_method("simcse").train(config, run)
    assert all(math.isfinite(value) for point in run.curve.values() for value in point.values())
    rates = [point.get("train/learning_rate") for point in run.curve.values()]
    assert rates == [None, 1e-3, 0.5e-3, 0.25e-3]
    resumed = new_run(resume_from=run.folder / "2")
    get_method("simcse").train(config, resumed)
    assert resumed.curve == {step: run.curve[step] for step in (4, 5)}


def chunked(backbone: Path, *, chunks: int, dropout: float) -> Student:
    torch.manual_seed(0)  # the head's weights
    config = settings(backbone, gradient_accumulation=chunks, dropout=dropout)
    return Student.from_config(config).train()


def gradients(student: Student, *, passes: int = 1) -> dict[str, Tensor]:
    """Of a loss that compares every sentence of two views with every other."""
    torch.manual_seed(5)
    views: list[Tensor] = []
    for _ in range(passes):
        views += dropout_views(student, CORPUS.sentences[:7], count=2 // passes)
    loss = info_nce(*torch.cat(views).chunk(2), temperature=0.05)
    torch.autograd.backward(loss)
    return {"loss": loss} | {n: p.grad for n, p in student.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("dropout", [0, 0.3])
def test_a_batch_in_chunks_gives_the_gradients_of_the_whole_batch(
    tiny_folder: Path, dropout: float
) -> None:
    """Under dropout, two passes draw the same masks; they keep the activations of all chunks."""
    chunks, passes = (2, 2) if dropout else (4, 1)  # without, 14 rows: 4, 4, 4 and 2
    whole, pieces = (chunked(tiny_folder, chunks=n, dropout=dropout) for n in (1, chunks))
    expected = gradients(whole, passes=passes)
    assert len(expected) > 10
    assert_close(gradients(pieces), expected, rtol=1e-5, atol=1e-5)


ROSE = (
    r"^diverged: the loss is nan at step 4, first in its part 'rank', after it rose from 1.5 at "
    r"step 1 to 7.5 at step 3, with learning_rate 1e\+06 \(.* at that step\), warmup_ratio 0 and "
    "precision {}; try a lower learning_rate"
)


@pytest.mark.parametrize(
    ("precision", "ranks", "message"),
    [
        ("fp32", (1, 0, 7), ROSE.format("fp32") + " or a warmup_ratio above 0$"),
        ("bf16", (1, 3, 7), ROSE.format("bf16") + ", a warmup_ratio above 0 or precision: fp32$"),
        ("fp16", (1, 0, 7), ROSE.format("fp16") + ", a warmup_ratio above 0 or precision: bf16$"),
        (
            "fp16",
            (1, 7, 1),
            "^the loss is nan at step 4, first in its part 'rank', with precision fp16; it did not "
            r"rise before, so look for a division by 0, log\(0\) or sqrt\(0\) there, or try "
            "precision: bf16$",
        ),
        (
            "fp32",
            (1,),
            r"^the loss is nan at step 2, .* too soon to see it rise, with learning_rate 1e\+06 "
            r".*; try a lower learning_rate or a warmup_ratio above 0, and look for .* sqrt\(0\) "
            "there$",
        ),
        ("fp32", (), r"^the loss is nan at step 1, .* it did not rise before, .* sqrt\(0\) there$"),
    ],
)
def test_a_loss_that_is_not_a_number_ends_the_trial_and_names_its_part(
    precision: str,
    ranks: tuple[float, ...],
    message: str,
    tiny_bert: Path,
    small_dev: dict[str, Any],
    new_run: Any,
) -> None:
    """The learning rate is blamed only if the loss rose, also before the last dev point."""
    hot = {"learning_rate": 1e6, "precision": precision}
    config = settings(tiny_bert, **hot, max_steps=5, eval_steps=3, dev=small_dev)
    run, values = new_run(), iter([*ranks, math.nan])

    def fail(made: Made, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        nothing = 0 * made.weight
        return {"contrastive": nothing + 0.5, "rank": nothing + next(values)}

    with pytest.raises(TrainingError, match=message):
        trained(config, run, Made(fail))
    assert list(run.curve) == ([0, 3] if len(ranks) == 3 else [0])


def test_metrics_of_an_objective_are_in_the_curve(
    tiny_bert: Path,
    small_dev: dict[str, Any],
    new_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Adam brings a weight down by the learning rate, 0.1 times 1 and 4/5, then 3/5 and 2/5."""

    def tempered(made: Any, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        first, second = dropout_views(student, batch.sentences, count=2)
        return {"contrastive": info_nce(first, second, temperature=1.0) + made.weight}

    def tell(name: str) -> None:
        monkeypatch.setattr(Made, "metrics", lambda made: {name: made.weight.item()})

    config, run = settings(tiny_bert, dev=small_dev, max_grad_norm=None), new_run()
    tell("temperature")
    trained(config, run, Made(tempered))
    assert "train/temperature" not in run.curve[0]
    found = [run.curve[step]["train/temperature"] for step in (2, 4)]
    assert found == pytest.approx([0.32, 0.22])
    assert run.curve[2]["train/loss"] == run.curve[2]["train/loss_contrastive"]
    for name in ("loss", "loss_contrastive", "learning_rate", "progress"):
        tell(name)
        message = f"Made.metrics gives train/{name}, which the training loop reports itself"
        with pytest.raises(TrainingError, match=message):
            trained(config, new_run(), Made(tempered))


def test_patience_ends_a_trial(tiny_bert: Path, new_run: Callable[..., Any]) -> None:
    """The encoder stays as it is, so the first dev point is the best one."""
    config = settings(tiny_bert, max_steps=20, patience=2, dev=SICKR)
    run = new_run()
    returned = trained(config, run, Made())
    assert list(run.curve) == [0, 2, 4, 6]
    assert run.curve[6]["train/progress"] == 6 / 20
    assert returned["dev/sickr_spearman"] == run.curve[2]["dev/sickr_spearman"]
    for step, rest in ((4, [6]), (6, [])):  # a resumed trial ends where it would have
        resumed = new_run(resume_from=run.folder / str(step))
        trained(config, resumed, Made())
        assert list(resumed.curve) == rest


def test_a_mean_of_dev_sets_picks_the_checkpoint(tiny_bert, new_run) -> None:
    """The kept one is the best by the mean, though each set alone would keep another."""
    dev = DevSelection(checkpoint=("stsb", "sickr"), also=())
    best, encoder = Best(dev_metric(dev.checkpoint_name)), load_encoder(str(tiny_bert))
    for step, (stsb, sickr) in enumerate([(0.9, 0.1), (0.6, 0.6), (0.1, 0.9)], start=1):
        scores = {"dev/stsb_spearman": stsb, "dev/sickr_spearman": sickr}
        best.consider(step, dev.with_means(scores), encoder)
    assert (best.step, best.metrics["dev/stsb_sickr_mean"]) == (2, 0.6)

    config, run = settings(tiny_bert, max_steps=20, patience=1, dev=dev.model_dump()), new_run()
    returned = trained(config, run, Made())
    assert list(run.curve) == [0, 2, 4]
    for metrics in (returned, *run.curve.values()):
        both = (metrics[f"dev/{name}_spearman"] for name in ("stsb", "sickr"))
        assert metrics["dev/stsb_sickr_mean"] == sum(both) / 2


def test_the_best_of_several_encoders_is_kept(tiny_bert, small_dev, new_run) -> None:
    """Wherever it stands; one without a score is none."""
    best, other, broken = load_encoder("mini"), *(load_encoder(str(tiny_bert)) for _ in range(2))
    torch.nn.init.zeros_(broken.model.encoder.layer[-1].output.LayerNorm.weight)
    config, run = settings(tiny_bert, dev=small_dev, max_steps=2), new_run()
    trained(config, run, Made(None, broken, other, best, other, broken))
    expected = DevSuite(config.dev, data="builtin").evaluate(best)
    assert {name: run.curve[2][name] for name in expected} == expected
    kept = load_encoder(str(run.folder / "2" / BEST_FOLDER))
    assert torch.equal(kept.encode(CORPUS.sentences), best.encode(CORPUS.sentences))


def test_test_pooler_is_used_at_dev_and_in_the_saved_encoder(tiny_bert, small_dev, new_run) -> None:
    config = settings(tiny_bert, pooler="avg", test_pooler="avg_top2", max_steps=2, dev=small_dev)
    run, poolers = new_run(), []

    def note(_: Objective, student: StudentProtocol, batch: Batch) -> dict[str, Tensor]:
        poolers.append(student.encoder.pooling.pooler)
        (view,) = dropout_views(student, batch.sentences, count=1)
        return {"contrastive": view.square().sum()}

    trained(config, run, Made(note))
    assert set(poolers) == {"avg"}
    suite = DevSuite(config.dev, data="builtin")
    assert run.curve[0] == suite.evaluate(load_encoder(str(tiny_bert), pooler="avg_top2"))
    kept = load_encoder(str(run.folder / "2" / BEST_FOLDER))
    assert kept.pooling.pooler == "avg_top2"
    scores = suite.evaluate(kept)
    assert scores == {name: run.curve[2][name] for name in scores}
    with pytest.raises(ValidationError, match="a prompt is read at its mask in training and at"):
        settings("mini", test_pooler="mask")


def test_an_objective_that_returns_no_scalars_is_refused(tiny_bert: Path) -> None:
    table: list[tuple[Any, str]] = [
        (torch.zeros(64), "a Tensor of shape (64,)"),
        (torch.zeros(()), "a Tensor of shape ()"),
        ({"contrastive": torch.zeros(64)}, "{'contrastive': a Tensor of shape (64,)}"),
        ({"contrastive": 0.5}, "{'contrastive': float 0.5}"),
        ({1: torch.zeros(())}, "{1: a Tensor of shape ()}"),
        ({}, "{}"),
        (None, "None"),
    ]
    state = started(settings(tiny_bert), objective=Made())
    for parts, got in table:
        state.objective.make = lambda *_, parts=parts: parts
        with pytest.raises(TrainingError) as caught:
            losses_of(state, Batch(["a", "b"], np.arange(2)))
        assert f"{Made.__module__}.Made.forward" in str(caught.value)
        assert str(caught.value).endswith(f"got {got}")
