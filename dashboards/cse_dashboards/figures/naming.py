"""What tasks, metrics and hyperparameters are called in figures, with their units."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cse_methods.data.dev_selection import climbed_sets
from cse_methods.names import hyperparameter_name, task_name
from cse_methods.tasks import AVG_TRANSFER, LONG_TASKS, TRANSFER_TASKS
from cse_platform.sweep.objectives import DEV_VALUE, GPU_HOURS, SECONDS, is_metric, metric_of

_METRICS = {
    "kcc": "KCC",
    "ndcg": "NDCG",
    "spearman": "Spearman",
    "accuracy": "accuracy",
    "mean": "mean",
}
_CLASSIFIED = (*TRANSFER_TASKS, *LONG_TASKS, AVG_TRANSFER, "transfer_dev")
"""Tasks that are scored by an accuracy; all others by a correlation, a lab's own sets too."""
_MEASURED = {
    "dev/alignment": "dev, alignment",
    "dev/uniformity": "dev, uniformity",
    "train/loss": "training loss",
    "train/learning_rate": "learning rate",
    "perf/sentences_per_second": "sentences per second",
    "perf/epoch_minutes": "minutes an epoch",
    "perf/gpu_memory_gib": "peak GPU memory, GiB",
    "perf/host_memory_gib": "peak host memory, GiB",
}

_COSTS = {SECONDS: "seconds of training", GPU_HOURS: "GPU-hours"}


@dataclass(frozen=True)
class Quantity:
    """What an axis shows."""

    title: str
    """With its unit."""
    factor: float = 1.0
    """From what is stored to what is drawn."""

    @property
    def name(self) -> str:
        return self.title.removesuffix(" × 100")


def score_quantity(column: str, *, split: str = "test") -> Quantity:
    """Of a column of scores, e.g. `stsb`, `avg_sts_kcc`, `mr`."""
    task, _, metric = column.rpartition("_")
    if not task or metric not in _METRICS:
        task, metric = column, "accuracy" if column in _CLASSIFIED else "spearman"
    sets = " + ".join(task_name(one) for one in climbed_sets(task))
    return Quantity(f"{sets} {split}, {_METRICS[metric]} × 100", 100.0)


def dev_quantity(task: str) -> Quantity:
    """Of what a search climbs: `stsb`, `transfer_dev`, a lab's own, a mean `stsb+sickr`."""
    mean = "_mean" * (len(climbed_sets(task)) > 1)
    return score_quantity(task + mean, split="dev")


def objective_quantity(name: str, dev: str) -> Quantity:
    """Of an objective of a search that climbs `dev`."""
    if name == DEV_VALUE:
        return dev_quantity(dev)
    return metric_quantity(metric_of(name)) if is_metric(name) else Quantity(_COSTS[name])


def metric_quantity(metric: str) -> Quantity:
    """Of a metric of a dev curve, e.g. `dev/stsb_spearman`, `train/loss_rank`, `dev/alignment`."""
    split, _, name = metric.partition("/")
    if name.rpartition("_")[2] in _METRICS:
        return score_quantity(name, split=split)
    if name.startswith("loss_"):
        return Quantity(f"training loss, {name.removeprefix('loss_')} part")
    return Quantity(_MEASURED.get(metric, metric))


def number(value: float) -> str:
    """Three significant digits, small and large ones by powers of ten: `0.19`, `2.7e-4`."""
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, _, power = f"{value:.2e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def value_text(value: Any) -> str:
    """The value of a hyperparameter; of several, each, and of a model or a file its name."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return number(value)
        case list() | tuple():
            return ", ".join(map(value_text, value)) or "none"
        case {"model": str(model), **others}:
            told = f" ({values_line(_by_text(others))})" if others else ""
            return model.rstrip("/").rpartition("/")[2] + told
        case dict():
            return f"{{{values_line(_by_text(value))}}}"
    return str(value)


def _by_text(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in values.items()}


def values_line(values: Mapping[str, Any]) -> str:
    """Hyperparameters in a legend or beside a point: `lr=2.7e-4, γ=0.19`."""
    return ", ".join(f"{hyperparameter_name(n)}={value_text(v)}" for n, v in values.items())
