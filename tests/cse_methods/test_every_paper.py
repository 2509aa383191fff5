"""What every method owes the platform, whatever its paper says."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from torch.testing import assert_close

from cse_methods.checkpoint import BEST
from cse_methods.contract import Method, MethodConfig
from cse_methods.dev import DevSuite
from cse_methods.encoder import load_encoder
from cse_methods.registry import available_methods, get_method

REQUIRED: dict[str, dict[str, Any]] = {"rankcse": {"teachers": ["TINY"]}}
"""Settings without a default, by method; TINY becomes the folder of a tiny encoder."""
SETTINGS = {
    "corpus": "builtin",
    "data": "builtin",
    "batch_size": 8,
    "max_steps": 5,
    "eval_steps": 2,
    "warmup_ratio": 0.4,
}
STEPS = [0, 2, 4, 5]
ON_MINI = {"dev": {"checkpoint": "sickr", "search": "sickr", "also": []}}
"""The smaller dev set alone: encoding it is most of the time that these tests take."""


class Trial(NamedTuple):
    """One method, trained once."""

    method: Method
    config: MethodConfig
    run: Any
    returned: dict[str, float]


@pytest.fixture(scope="session", params=available_methods())
def method(request: pytest.FixtureRequest) -> Method:
    return get_method(request.param)


@pytest.fixture(scope="session")
def teacher_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", params=["mini", "tiny_roberta"])
def trial(
    request: pytest.FixtureRequest,
    method: Method,
    tiny_bert: Path,
    tiny_roberta: Path,
    new_run: Callable[..., Any],
    teacher_cache: None,
) -> Trial:
    required = {
        name: [str(tiny_bert) if entry == "TINY" else entry for entry in value]
        for name, value in REQUIRED.get(method.name, {}).items()
    }
    backbone = {"backbone": str(tiny_roberta)}
    if request.param == "mini":
        backbone = {"backbone": "mini"} | ON_MINI
    config = method.config.model_validate(SETTINGS | backbone | required)
    run = new_run(seed=1)
    return Trial(method, config, run, method.train(config, run))


def without_perf(metrics: dict[str, float]) -> dict[str, float]:
    """Without what measures the machine."""
    return {name: value for name, value in metrics.items() if not name.startswith("perf/")}


def test_dev_points_at_step_0_every_eval_steps_and_the_last(trial: Trial) -> None:
    assert list(trial.run.curve) == STEPS
    for step, metrics in trial.run.curve.items():
        for task in trial.config.dev.tasks:
            assert -1 <= metrics[f"dev/{task}_spearman"] <= 1
        assert all(name.startswith(("dev/", "train/")) for name in metrics)
        assert all(math.isfinite(value) for value in metrics.values())
        assert any(name.startswith("train/") for name in metrics) == (step > 0)


def test_parts_sum_to_the_loss(trial: Trial) -> None:
    for metrics in list(trial.run.curve.values())[1:]:
        parts = [value for name, value in metrics.items() if name.startswith("train/loss_")]
        assert parts
        assert metrics["train/loss"] == pytest.approx(sum(parts), rel=1e-6)


def test_progress_ends_at_1(trial: Trial) -> None:
    curve = trial.run.curve
    assert [curve[step]["train/progress"] for step in STEPS[1:]] == [2 / 5, 4 / 5, 1]


def test_training_changes_the_encoder_from_the_untrained_backbone_on(trial: Trial) -> None:
    untrained = load_encoder(trial.config.backbone, pooler=trial.config.pooler)
    expected = DevSuite(trial.config.dev.tasks, data="builtin").evaluate(untrained)
    assert trial.run.curve[0] == expected
    name = f"dev/{trial.config.dev.search}_spearman"
    assert len({metrics[name] for metrics in trial.run.curve.values()}) == len(STEPS)


def test_the_best_trained_step_is_returned_and_kept(trial: Trial) -> None:
    trained = {step: metrics for step, metrics in trial.run.curve.items() if step > 0}
    name = f"dev/{trial.config.dev.checkpoint}_spearman"
    best = max(trained.values(), key=lambda metrics: metrics[name])  # the earliest of equals
    assert without_perf(trial.returned) == best
    encoder = load_encoder(str(trial.run.folder / str(STEPS[-1]) / BEST))
    scores = DevSuite(trial.config.dev.tasks, data="builtin").evaluate(encoder)
    assert scores == {k: v for k, v in best.items() if k.startswith("dev/")}


def test_one_seed_gives_one_curve(trial: Trial, new_run: Callable[..., Any]) -> None:
    again, other = new_run(seed=1), new_run(seed=2)
    trial.method.train(trial.config, again)
    trial.method.train(trial.config, other)
    assert again.curve == trial.run.curve
    assert other.curve[0] == trial.run.curve[0]
    assert other.curve[STEPS[-1]]["train/loss"] != trial.run.curve[STEPS[-1]]["train/loss"]


@pytest.mark.parametrize("step", STEPS[1:])
def test_resumed_as_if_never_stopped(step: int, trial: Trial, new_run: Callable[..., Any]) -> None:
    run = new_run(seed=1, resume_from=trial.run.folder / str(step))
    returned = trial.method.train(trial.config, run)
    assert run.curve == {s: metrics for s, metrics in trial.run.curve.items() if s > step}
    assert without_perf(returned) == without_perf(trial.returned)
    if run.curve:
        last = str(STEPS[-1])
        resumed, undisturbed = (
            load_encoder(str(folder / last / BEST)).state_dict()
            for folder in (run.folder, trial.run.folder)
        )
        assert_close(resumed, undisturbed, rtol=0, atol=0)
