"""Checks that every method passes, for the tests of this package and of packages outside.

@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    return train_once("my_method", {"backbone": "mini"}, folder=tmp_path_factory.mktemp("once"))

@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_my_method(check, trained):
    check(trained)
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from cse_methods.config import MethodConfig, TrainingConfig
from cse_methods.contract import BEST_FOLDER, LateSave, Method
from cse_methods.data.dev_selection import dev_metric
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.encoders.library_encoder import load_library_encoder
from cse_methods.encoders.loading import SentenceEncoder, load_encoder
from cse_methods.registry import get_method
from cse_methods.reports import check_report
from cse_methods.sentence_transformers_trainer.settings import LibraryConfig
from cse_methods.settings import record_reads
from cse_methods.training.dev_evaluation import DevSuite

_SETTINGS = {"corpus": "builtin", "data": "builtin"}
_TRAINING = {"batch_size": 8, "max_steps": 5, "eval_steps": 2, "warmup_ratio": 0.4}
_SEED = 1


@dataclass
class RecordedRun:
    """A `Run` that keeps the dev curve in memory and every checkpoint in `folder/<step>`."""

    folder: Path
    seed: int = 0
    resume_from: Path | None = None
    curve: dict[int, dict[str, float]] = field(default_factory=dict)
    """Metrics by step, without those that measure the machine (`perf/…`)."""
    late: bool = False
    """Whether a checkpoint is written from a copy, at the dev point after its own."""
    _copy: Callable[[], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)  # a string will do
        self.resume_from = None if self.resume_from is None else Path(self.resume_from)

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        """Keep a dev point, and a checkpoint where there is one.

        AssertionError unless its step is above those before; ValueError if a number is none.
        """
        check_report(step, metrics)
        before = max(self.curve, default=-1)
        _assert_true(
            step > before,
            f"step {step} is reported after step {before}: steps rise, or a sweep loses the score",
        )
        self.curve[step] = _drop_perf_metrics(metrics)
        if self._copy is not None:
            self._copy()
            self._copy = None
        if self.late and isinstance(save, LateSave) and not save.last:
            self._copy = partial(save.copied(), self.folder / str(step))
        elif save is not None:
            save(self.folder / str(step))


@dataclass(frozen=True)
class TrainedOnce:
    """One method, trained once on one configuration."""

    method: Method
    config: MethodConfig
    run: RecordedRun
    returned: dict[str, float]
    read: frozenset[str]
    """The settings that were read while it trained."""

    @property
    def trains(self) -> bool:
        return isinstance(self.config, TrainingConfig)

    @property
    def steps(self) -> list[int]:
        """The steps at which a dev point is due."""
        if not isinstance(self.config, TrainingConfig):
            return [0, 1]
        last = self.config.max_steps or 0
        return [0, *range(self.config.eval_steps, last, self.config.eval_steps), last]

    def again(
        self, name: str, *, seed: int = _SEED, resume_from: Path | None = None
    ) -> RecordedRun:
        """Run the same configuration again, in a folder of its own."""
        run = RecordedRun(self.run.folder / name, seed, resume_from)
        self.method.train(self.config, run)
        return run


def train_once(method: str, settings: Mapping[str, Any], *, folder: Path | str) -> TrainedOnce:
    """Train a method for a few steps on the built-in corpus.

    Args:
        method: its registered name.
        settings: at least the backbone, and what else the method needs; they overwrite the small
            batch and the few steps of these checks.
        folder: where checkpoints are written.
    """
    registered = get_method(method)
    training = _TRAINING if issubclass(registered.config, TrainingConfig) else {}
    config = registered.config.model_validate(_SETTINGS | training | dict(settings))
    run = RecordedRun(Path(folder), _SEED)
    recorded, read = record_reads(config)
    returned = registered.train(recorded, run)
    return TrainedOnce(registered, config, run, returned, frozenset(read))


def reports_dev_points(trained: TrainedOnce) -> None:
    """The method reports finite numbers at step 0, every `eval_steps` and at the last step."""
    _assert_equal(list(trained.run.curve), trained.steps, "the reported steps")
    for step, metrics in trained.run.curve.items():
        for task in trained.config.dev.tasks:
            value = metrics.get(dev_metric(task), math.nan)
            _assert_true(-1 <= value <= 1, f"step {step}: {dev_metric(task)} is {value}")
        for name, value in metrics.items():
            _assert_true(
                name.startswith(("dev/", "train/")), f"step {step}: a metric named {name!r}"
            )
            _assert_true(math.isfinite(value), f"step {step}: {name} is {value}")
        has_losses = any(name.startswith("train/") for name in metrics)
        _assert_equal(has_losses, step > 0, f"step {step}: whether there are training metrics")


def loss_parts_sum_to_the_loss(trained: TrainedOnce) -> None:
    """`train/loss` is the sum of `train/loss_<part>`."""
    for metrics in list(trained.run.curve.values())[1:] if trained.trains else []:
        parts = [value for name, value in metrics.items() if name.startswith("train/loss_")]
        _assert_true(bool(parts), "there is no train/loss_<part>")
        same = math.isclose(metrics["train/loss"], sum(parts), rel_tol=1e-6)
        _assert_true(same, f"the parts {parts} do not sum to the loss {metrics['train/loss']}")


def progress_ends_at_one(trained: TrainedOnce) -> None:
    """`train/progress` is the share of the steps that are done."""
    steps = trained.steps[1:]
    shares = [trained.run.curve[step]["train/progress"] for step in steps]
    _assert_equal(shares, [step / steps[-1] for step in steps], "train/progress")


def training_changes_the_encoder(trained: TrainedOnce) -> None:
    """Step 0 is the untrained backbone, and every later dev point differs."""
    untrained = _score_on_dev(trained, _load_untrained(trained.config))
    _assert_equal(trained.run.curve[0], untrained, "the dev point of step 0")
    # All dev metrics: a rank correlation alone can stay the same after a small step.
    curve = trained.run.curve.values()
    points = {tuple(v for name, v in point.items() if name.startswith("dev/")) for point in curve}
    _assert_equal(len(points), len(trained.steps), "the number of different dev points")


def keeps_the_best_step(trained: TrainedOnce) -> None:
    """The method returns the best trained step, whose encoder is in the last checkpoint."""
    dev = trained.config.dev
    points = [metrics for step, metrics in trained.run.curve.items() if step > 0]
    values = [dev.with_means(metrics)[dev_metric(dev.checkpoint_name)] for metrics in points]
    best = points[values.index(max(values))]  # the earliest of equals
    _assert_equal(_drop_perf_metrics(trained.returned), best, "what is returned")
    folder = trained.run.folder / str(trained.steps[-1]) / BEST_FOLDER
    if trained.config.by_library:
        kept: SentenceEncoder = load_library_encoder(resolve_backbone(str(folder)), folder, {})
    else:
        kept = load_encoder(str(folder))
    _assert_equal(
        _score_on_dev(trained, kept), _select_dev_metrics(best), "the scores of the kept encoder"
    )


def reads_its_settings(trained: TrainedOnce) -> None:
    """Each of the method's own settings that takes part is read; others need `conditions`."""
    shared = TrainingConfig.model_fields.keys()
    own = trained.config.hyperparameters().keys() - shared
    unread = sorted(own - trained.read)
    says = f"nothing read {', '.join(unread)} in {trained.steps[-1]} steps; searching what nothing "
    _assert_true(not unread, f"{says}reads would have no effect")


def repeats_with_one_seed(trained: TrainedOnce) -> None:
    """The same seed gives the same dev curve."""
    _assert_equal(trained.again("repeated").curve, trained.run.curve, "the curve of the same seed")


def differs_with_another_seed(trained: TrainedOnce) -> None:
    """Another seed starts from the same backbone and gives other losses."""
    if not trained.trains:
        return
    other, last = trained.again("other-seed", seed=_SEED + 1), trained.steps[-1]
    _assert_equal(other.curve[0], trained.run.curve[0], "the dev point of step 0")
    losses = [run.curve[last]["train/loss"] for run in (other, trained.run)]
    _assert_true(losses[0] != losses[1], "another seed gives the same loss")


def resumes_as_if_never_stopped(trained: TrainedOnce) -> None:
    """From the first and from the last checkpoint on, every bit is as in one go.

    So is every checkpoint that is written later, from a copy.
    """
    last = trained.steps[-1]
    for step in dict.fromkeys((trained.steps[1], last)):
        run = RecordedRun(
            trained.run.folder / f"resumed-{step}", _SEED, trained.run.folder / str(step), late=True
        )
        returned = trained.method.train(trained.config, run)
        later_points = {s: metrics for s, metrics in trained.run.curve.items() if s > step}
        _assert_equal(run.curve, later_points, f"the curve after step {step}")
        _assert_equal(
            _select_dev_metrics(returned),
            _select_dev_metrics(trained.returned),
            "what the resumed trial returns",
        )
        for later in later_points:
            _assert_same_weights(run.folder / str(later), trained.run.folder / str(later))
            _assert_same_state(run.folder / str(later), trained.run.folder / str(later))


CHECKS: tuple[Callable[[TrainedOnce], None], ...] = (
    reports_dev_points,
    loss_parts_sum_to_the_loss,
    progress_ends_at_one,
    training_changes_the_encoder,
    keeps_the_best_step,
    reads_its_settings,
    repeats_with_one_seed,
    differs_with_another_seed,
    resumes_as_if_never_stopped,
)
"""Each takes a `TrainedOnce` and raises an AssertionError that says what is wrong."""


def _drop_perf_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.startswith("perf/")}


def _select_dev_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name.startswith("dev/")}


def _load_untrained(config: MethodConfig) -> SentenceEncoder:
    """Load the backbone as it is scored at step 0."""
    if isinstance(config, LibraryConfig):
        from cse_methods.sentence_transformers_trainer.student import load_student

        return load_student(config)
    tested = config.test_pooler if isinstance(config, TrainingConfig) else None
    pooler = tested or config.pooler
    return load_encoder(config.backbone, pooler=pooler, prompt=config.test_prompt())


def _score_on_dev(trained: TrainedOnce, encoder: SentenceEncoder) -> dict[str, float]:
    config = trained.config
    suite = DevSuite(
        config.dev, data=config.data, arithmetic=config.arithmetic, widths=config.dev_widths
    )
    return suite.evaluate(encoder)


def _assert_same_weights(first: Path, second: Path) -> None:
    """Assert that the kept encoders have the same files of weights, tensor by tensor."""
    kept = [one / BEST_FOLDER for one in (first, second)]
    files = [sorted(file.relative_to(one) for file in one.rglob("*.safetensors")) for one in kept]
    _assert_equal(files[0], files[1], "the files of kept weights")
    for file in files[0]:
        ours, theirs = (load_file(one / file) for one in kept)
        names = sorted(ours.keys() | theirs.keys())
        unlike = [name for name in names if not _is_same(ours.get(name), theirs.get(name))]
        _assert_true(not unlike, f"resumed weights differ: {', '.join(unlike[:3])}")


def _assert_same_state(first: Path, second: Path) -> None:
    """Assert that what PyTorch saved beside the kept weights is the same, if there is any."""
    for file in sorted(second.glob("*.pt")):
        ours, theirs = (
            # The method itself has just written it, and this reads it in a tenth of the time.
            dict(_list_leaves(torch.load(one / file.name, weights_only=False)))
            for one in (first, second)
        )
        unlike = [name for name, value in theirs.items() if not _is_same(ours.get(name), value)]
        _assert_true(not unlike, f"of {file.name}, resumed: {', '.join(unlike[:3])} differ")


def _list_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested dicts and lists hold, with its place, but for what measures the machine."""
    if isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            if not str(key).startswith("perf/"):
                yield from _list_leaves(item, f"{name}/{key}")
    else:
        yield name, value


def _is_same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return isinstance(ours, torch.Tensor) and torch.equal(ours, theirs)
    return bool(ours == theirs)


def _assert_equal(found: object, expected: object, what: str) -> None:
    _assert_true(found == expected, f"{what}: expected {expected}, found {found}")


def _assert_true(condition: bool, problem: str) -> None:
    # Raised by hand: this module is used from packages whose tests may run with `python -O`.
    if not condition:
        raise AssertionError(problem)
