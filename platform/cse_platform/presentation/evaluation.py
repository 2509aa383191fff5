"""Builds the output of `cse-evaluate`: a page for people, and a record for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cse_methods.data.dev_selection import ByWidth
from cse_methods.tasks import (
    AVG_STS,
    AVG_TRANSFER,
    GEOMETRY_METRICS,
    LONG_TASKS,
    MAIN_SCORE,
    STS_TASKS,
    TRANSFER_TASKS,
)
from cse_platform.numbers import percent
from cse_platform.presentation.tables import Block, Heading, Page, Paragraph, bars, text_table
from cse_platform.values import group_by

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Evaluation

CORRELATIONS = {
    "Spearman, all": ("test", "spearman"),
    "Spearman, mean": ("test", "spearman_mean"),
    "Spearman, wmean": ("test", "spearman_wmean"),
    "Spearman, clean rows": ("test", "clean"),
    "Pearson, all": ("test", "pearson"),
    "Pearson, mean": ("test", "pearson_mean"),
    "Pearson, wmean": ("test", "pearson_wmean"),
}
OWN = {name.removesuffix(", all"): key for name, key in CORRELATIONS.items() if "all" in name}
RANKING = {
    "KCC": ("test", "kcc"),
    "NDCG, linear gain": ("test", "ndcg"),
    "NDCG, exponential gain": ("test", "ndcg_exponential"),
}
ACCURACIES = {"test": ("test", "accuracy"), "dev": ("dev", "accuracy"), "test F1": ("test", "f1")}
SEEN = {
    "in its training corpus": ("test", "in_corpus"),
    "in its teachers' corpora": ("test", "in_teachers"),
    "in its own dev files": ("test", "in_dev"),
}

Values = Mapping[tuple[str, str, str], float]
"""Values by task, split and metric."""


def evaluation_page(evaluation: "Evaluation") -> Page:
    """Build a page of all scores; correlations, accuracies and rankings are x 100."""
    values: Values = {(s.task, str(s.split), s.metric): s.value for s in evaluation.scores}
    sts, transfer = (*STS_TASKS, AVG_STS), (*TRANSFER_TASKS, AVG_TRANSFER)
    tests = list(dict.fromkeys(task for task, split, _ in values if split == "test"))
    own = [task for task in tests if task not in {*sts, *transfer, *LONG_TASKS}]
    return [
        *_make_table("STS test sets, correlation x 100", values, CORRELATIONS, sts),
        *_make_table("Own test sets, correlation x 100", values, OWN, own),
        *_make_task_table(evaluation),
        *make_width_table("First coordinates alone, Spearman x 100", evaluation.by_width),
        *_make_table("Ranking on the STS test sets, x 100", values, RANKING, sts),
        *_make_table("Transfer, accuracy x 100", values, ACCURACIES, transfer),
        *_make_table("Long text, accuracy x 100", values, ACCURACIES, LONG_TASKS),
        *_make_geometry_blocks(values, evaluation),
        *_make_table("Sentences that it has seen, of 100", values, SEEN, tests),
        *_describe_reading(evaluation),
    ]


def describe_missing(evaluation: "Evaluation") -> str:
    """Describe which metrics have no value, and why that can be; empty if all have one."""
    if not evaluation.without_value:
        return ""
    by_task = group_by(evaluation.without_value, lambda names: names[0])
    alike = group_by(by_task, lambda task: ", ".join(metric for *_, metric in by_task[task]))
    listed = "; ".join(f"{metrics} of {', '.join(tasks)}" for metrics, tasks in alike.items())
    return (
        f"{listed} (all similarities or labels are equal, or no sentence stands in more than three "
        "pairs)"
    )


def evaluation_record(model: str, evaluation: "Evaluation") -> dict[str, Any]:
    """Build a record for programs: scores as fractions, and what each identity is the hash of."""
    return {
        "model": model,
        "scores": [asdict(score) for score in evaluation.scores],
        "without_value": [
            dict(zip(("task", "split", "metric"), names, strict=True))
            for names in evaluation.without_value
        ],
        "by_width": {task: dict(curve) for task, curve in evaluation.by_width.items()},
        "histogram": _count_histogram(evaluation),
        "identities": {name: dict(parts) for name, parts in evaluation.identities.items()},
        "seconds": dict(evaluation.seconds),
    }


def _make_table(
    title: str, values: Values, keys: Mapping[str, tuple[str, str]], tasks: Sequence[str]
) -> Iterator[Block]:
    """Make a table with a row for each key and a column for each task that has any value."""
    shown = [task for task in tasks if any((task, *key) in values for key in keys.values())]
    rows = [
        (name, *(percent(values.get((task, *key))) for task in shown))
        for name, key in keys.items()
        if any((task, *key) in values for task in shown)
    ]
    if rows:
        yield Heading(title, 2)
        yield text_table(("", *shown), rows)


def _make_task_table(evaluation: "Evaluation") -> Iterator[Block]:
    """Make a table with a row for each task that mteb scores, and for the mean of a benchmark."""
    rows = []
    for score in evaluation.scores:
        if score.metric == MAIN_SCORE:
            protocol = evaluation.identities[score.identity]["protocol"]
            metric = protocol.get("metric") or f"mean of {len(protocol['mean over'])} tasks"
            rows.append((score.task, metric, percent(score.value)))
    if rows:
        yield Heading("Tasks by their main score, x 100", 2)
        yield text_table(("task", "main score", ""), rows)


def make_width_table(title: str, curves: ByWidth) -> Iterator[Block]:
    """Make a table with a row for each number of coordinates; none without scores."""
    if curves:
        yield Heading(title, 2)
        widths = dict.fromkeys(width for curve in curves.values() for width in curve)
        rows = [(str(w), *(percent(curve.get(w)) for curve in curves.values())) for w in widths]
        yield text_table(("coordinates", *curves), rows)


def _make_geometry_blocks(values: Values, evaluation: "Evaluation") -> Iterator[Block]:
    measures = [
        (name.replace("_", " "), f"{value:.4f}")
        for (_, _, name), value in values.items()
        if name in GEOMETRY_METRICS
    ]
    if not measures:
        return
    yield Heading("Geometry on STS-B dev", 2)
    yield text_table(("measure", "value"), measures)
    counted = _count_histogram(evaluation).items()
    rows = tuple((gold, str(sum(counts)), bars(counts)) for gold, counts in counted)
    yield text_table(("gold", "pairs", "cosine from -1 to 1"), rows)


def _count_histogram(evaluation: "Evaluation") -> dict[str, list[int]]:
    """Count the dev pairs in 40 equal bins of cosine, by bucket of gold; empty without pairs."""
    from cse_methods.evaluation.measures.geometry import histogram

    for pairs in evaluation.examples:
        if pairs.split == "dev" and pairs.gold is not None:
            return dict(histogram(pairs.values, pairs.gold))
    return {}


def _describe_reading(evaluation: "Evaluation") -> Iterator[Block]:
    """Describe what has no value, how the encoder read its texts, and how long each part took."""
    if missing := describe_missing(evaluation):
        yield Paragraph(f"No value: {missing}")
    readings = [parts["reading"] for parts in evaluation.identities.values() if "reading" in parts]
    if readings:
        listed = ", ".join(
            f"{name} {value!r}" if name == "prompt" else f"{name} {value}"
            for name, value in readings[0].items()
        )
        yield Paragraph(f"Read with: {listed}")
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in evaluation.seconds.items())
    yield Paragraph(f"Seconds: {seconds}")
