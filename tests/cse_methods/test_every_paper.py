"""What every method owes the platform, whatever its paper says."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from torch.testing import assert_close

from cse_methods.contract import BEST_FOLDER, Method, MethodConfig, TrainingConfig
from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.registry import available_methods, get_method
from cse_methods.training.dev_evaluation import DevSuite

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "rankcse": [{"teachers": ["TINY"]}],
    "sncse": [{"negations": "NEGATIONS"}],
    "compcse": [
        {"partitions": 3, "aggregation": "concat-project", "compose": "both"},
        {"subsampling": "subsuming", "d0": 16},
    ],
    "hicl": [
        {"base": "esimcse", "slicing_length": 6, "queue_size": 12},
        {"base": "sncse", "slicing_length": 6, "beta": 0.1, "negations": "NEGATIONS"},
    ],
    "whitenedcse": [{"positives": 4, "sgw_copies": 2, "test_head": True}, {"whitening": "zca"}],
    "untrained": [{"whitening": True, "whitening_sentences": 400}],
}
"""Settings to try of a method, and those without a default; without an entry, its defaults. TINY
becomes the folder of a tiny encoder, NEGATIONS a file."""
SETTINGS = {"corpus": "builtin", "data": "builtin"}
TRAINING = {"batch_size": 8, "max_steps": 5, "eval_steps": 2, "warmup_ratio": 0.4}
STEPS = [0, 2, 4, 5]
ON_MINI = {"dev": {"checkpoint": "sickr", "search": "sickr", "also": []}}
"""The smaller dev set alone: encoding it is most of the time that these tests take."""
CASES = {
    "-".join([backbone, name, *map(str, variant)]): (backbone, name, variant)
    for name in available_methods()
    for place, variant in enumerate(VARIANTS.get(name, [{}]))
    for backbone in ("mini", "tiny_roberta")
    # On mini, which takes its time, the first of a method's variants is enough.
    if place == 0 or backbone != "mini"
}


class Trial(NamedTuple):
    """One method, trained once."""

    method: Method
    config: MethodConfig
    run: Any
    returned: dict[str, float]

    @property
    def trains(self) -> bool:
        return isinstance(self.config, TrainingConfig)

    @property
    def steps(self) -> list[int]:
        """The steps of its dev curve."""
        return STEPS if self.trains else [0, 1]


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Any]:
    """What the names in `VARIANTS` become."""
    negations = tmp_path_factory.mktemp("negations") / "builtin.tsv"
    negations.write_text("".join(f"{s}\tNot {s}\n" for s in builtin_corpus()), encoding="utf-8")
    return {"TINY": str(tiny_bert), "NEGATIONS": str(negations)}


@pytest.fixture(scope="session")
def teacher_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def settled(value: Any, places: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [settled(entry, places) for entry in value]
    return places.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="session", params=list(CASES.values()), ids=list(CASES))
def trial(
    request: pytest.FixtureRequest,
    places: dict[str, Any],
    tiny_roberta: Path,
    new_run: Callable[..., Any],
    teacher_cache: None,
) -> Trial:
    place, name, variant = request.param
    method = get_method(name)
    backbone: dict[str, Any] = {"backbone": str(tiny_roberta)}
    if place == "mini":
        backbone = {"backbone": "mini"} | ON_MINI
    chosen = {key: settled(value, places) for key, value in variant.items()}
    training = TRAINING if issubclass(method.config, TrainingConfig) else {}
    config = method.config.model_validate(SETTINGS | training | backbone | chosen)
    run = new_run(seed=1)
    return Trial(method, config, run, method.train(config, run))


def without_perf(metrics: dict[str, float]) -> dict[str, float]:
    """Without what measures the machine."""
    return {name: value for name, value in metrics.items() if not name.startswith("perf/")}


def test_dev_points_at_step_0_every_eval_steps_and_the_last(trial: Trial) -> None:
    assert list(trial.run.curve) == trial.steps
    for step, metrics in trial.run.curve.items():
        for task in trial.config.dev.tasks:
            assert -1 <= metrics[f"dev/{task}_spearman"] <= 1
        assert all(name.startswith(("dev/", "train/")) for name in metrics)
        assert all(math.isfinite(value) for value in metrics.values())
        assert any(name.startswith("train/") for name in metrics) == (step > 0)


def test_parts_sum_to_the_loss(trial: Trial) -> None:
    if not trial.trains:
        pytest.skip("nothing is trained")
    for metrics in list(trial.run.curve.values())[1:]:
        parts = [value for name, value in metrics.items() if name.startswith("train/loss_")]
        assert parts
        assert metrics["train/loss"] == pytest.approx(sum(parts), rel=1e-6)


def test_progress_ends_at_1(trial: Trial) -> None:
    curve, steps = trial.run.curve, trial.steps
    expected = [step / steps[-1] for step in steps[1:]]
    assert [curve[step]["train/progress"] for step in steps[1:]] == expected


def test_training_changes_the_encoder_from_the_untrained_backbone_on(trial: Trial) -> None:
    config = trial.config
    untrained = load_encoder(config.backbone, pooler=config.pooler, prompt=config.test_prompt())
    expected = DevSuite(config.dev.tasks, data="builtin").evaluate(untrained)
    assert trial.run.curve[0] == expected
    name = f"dev/{config.dev.search}_spearman"
    assert len({metrics[name] for metrics in trial.run.curve.values()}) == len(trial.steps)


def test_the_best_trained_step_is_returned_and_kept(trial: Trial) -> None:
    trained = {step: metrics for step, metrics in trial.run.curve.items() if step > 0}
    name = f"dev/{trial.config.dev.checkpoint}_spearman"
    best = max(trained.values(), key=lambda metrics: metrics[name])  # the earliest of equals
    assert without_perf(trial.returned) == best
    encoder = load_encoder(str(trial.run.folder / str(trial.steps[-1]) / BEST_FOLDER))
    scores = DevSuite(trial.config.dev.tasks, data="builtin").evaluate(encoder)
    assert scores == {k: v for k, v in best.items() if k.startswith("dev/")}


def test_one_seed_gives_one_curve(trial: Trial, new_run: Callable[..., Any]) -> None:
    again = new_run(seed=1)
    trial.method.train(trial.config, again)
    assert again.curve == trial.run.curve


def test_another_seed_gives_another_curve(trial: Trial, new_run: Callable[..., Any]) -> None:
    if not trial.trains:
        pytest.skip("nothing is trained")
    other, last = new_run(seed=2), trial.steps[-1]
    trial.method.train(trial.config, other)
    assert other.curve[0] == trial.run.curve[0]
    assert other.curve[last]["train/loss"] != trial.run.curve[last]["train/loss"]


@pytest.mark.parametrize("place", [1, -1])
def test_resumed_as_if_never_stopped(place: int, trial: Trial, new_run: Callable[..., Any]) -> None:
    step, last = trial.steps[place], trial.steps[-1]
    run = new_run(seed=1, resume_from=trial.run.folder / str(step))
    returned = trial.method.train(trial.config, run)
    assert run.curve == {s: metrics for s, metrics in trial.run.curve.items() if s > step}
    dev = {k: v for k, v in trial.returned.items() if k.startswith("dev/")}
    assert {k: v for k, v in returned.items() if k.startswith("dev/")} == dev
    if run.curve:
        resumed, undisturbed = (
            load_encoder(str(folder / str(last) / BEST_FOLDER)).state_dict()
            for folder in (run.folder, trial.run.folder)
        )
        assert_close(resumed, undisturbed, rtol=0, atol=0)
