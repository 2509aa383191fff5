"""What `cse-leaderboard show` prints: everything about one trial, nothing left out."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from cse_methods.data.dev_selection import dev_metric
from cse_platform.leaderboard.query.trials.details_record import SweepStart, TrialDetails
from cse_platform.leaderboard.row import GEOMETRY
from cse_platform.pages import Block, Curve, Heading, Page, Paragraph, Table

DIGITS = 12
"""Of an identity; --json has them all."""


def page(story: TrialDetails, *, where: str) -> Page:
    """Everything about a trial; correlations and accuracies x 100.

    Args:
        story: of the trial.
        where: options that lead a command to its leaderboard, as `leaderboard_options` has them.
    """
    return [
        Heading(f"Trial {story.key}", 1),
        Paragraph(_headline(story)),
        *([Paragraph(f"Error: {story.error}")] if story.error else []),
        _table(_facts(story)),
        *_settings(story),
        *_model(story, where),
        *_curve(story),
        *_scores(story),
        *_openings(story),
        *_siblings(story),
        *_origin(story),
    ]


def settings(story: TrialDetails) -> Table:
    """All hyperparameters, and which of them the sweep searched."""
    searched = set(story.configuration.searched)
    rows = [
        (name, _text(value), "searched" if name in searched else "")
        for name, value in story.configuration.values.items()
    ]
    return Table(("setting", "value", ""), tuple(rows)).without_empty_columns()


def _settings(story: TrialDetails) -> Iterator[Block]:
    if story.configuration.values:
        yield Heading("Settings", 2)
        yield settings(story)


def score(metric: str, value: float) -> str:
    """One score: correlations and accuracies x 100, what has no such scale as it is."""
    return f"{value:.4f}" if metric in GEOMETRY else _hundred(value)


def _headline(story: TrialDetails) -> str:
    """State and dev value in one line."""
    if story.best_value is None:
        return f"{story.state}, no dev value on {story.dev.search}"
    told = f"{story.state}, dev {story.dev.search} {_hundred(story.best_value)}"
    start = "" if story.untrained is None else f" (untrained {_hundred(story.untrained)})"
    step = "" if story.best_step is None else f" at step {story.best_step}"
    return f"{told}{step}{start}"


def _facts(story: TrialDetails) -> dict[str, str | None]:
    ours = story.imported_from is None
    sweeps = [f"{one.sweep} #{one.number} ({one.role})" for one in story.sweeps]
    return {
        "sweeps": ", ".join(sweeps),
        "tags": ", ".join(story.tags) or None,
        "imported from": story.imported_from,
        "method": f"{story.method}, revision {story.revision}" if ours else story.method,
        "backbone": story.backbone,
        "corpus": story.corpus,
        "seed": str(story.seed),
        "configuration": story.configuration.hash,
        "dev sets": f"{story.dev.checkpoint} picks the checkpoint, the search climbs "
        f"{story.dev.search}; {story.dev.source}",
        "dev identity": story.dev.identity,
        "started": _time(story.started),
        "finished": None if story.finished is None else _time(story.finished),
        "seconds": None if story.wall_seconds is None else f"{story.wall_seconds:.1f}",
        "GPU-hours": f"{story.gpu_hours:.2f}",
        "machine": story.machine,
    }


def _model(story: TrialDetails, where: str) -> Iterator[Block]:
    yield Heading("Model", 2)
    if story.model is None:
        yield Paragraph(
            f"None was kept: {story.why_no_model}. "
            f"cse-leaderboard reproduce {story.key[:8]}{where} writes {story.again}."
        )
        return
    yield Paragraph(story.model)
    yield Paragraph(
        f"cse-evaluate {story.key[:8]}{where}\n"
        f"cse-leaderboard export {story.key[:8]} DIR{where}\n"
        f"SentenceTransformer({story.model!r})"
    )


def _curve(story: TrialDetails) -> Iterator[Block]:
    if not story.curve:
        return
    yield Heading(f"Dev curve, {dev_metric(story.dev.search)} x 100", 2)
    points = tuple((one.step, one.value) for one in story.curve)
    if any(value is not None for _, value in points):
        yield Curve(points, story.best_step)
    names = list(dict.fromkeys(name for one in story.curve for name in one.metrics))
    for group in dict.fromkeys(name.partition("/")[0] for name in names):
        shown = [name for name in names if name.partition("/")[0] == group]
        head = ("step", *(name.removeprefix(f"{group}/") for name in shown))
        rows = [
            (str(one.step), *(_metric(name, one.metrics) for name in shown)) for one in story.curve
        ]
        yield Heading(group, 3)
        yield Table(head, tuple(rows))


def _scores(story: TrialDetails) -> Iterator[Block]:
    if not story.scores:
        return
    main = story.main_scores
    rows = [
        (one.task, one.split, one.metric, score(one.metric, one.value), one.identity[:DIGITS])
        for one in (*main, *(one for one in story.scores if one not in main))
    ]
    yield Heading("Scores, x 100", 2)
    yield Table(("task", "split", "metric", "value", "identity"), tuple(rows))


def _openings(story: TrialDetails) -> Iterator[Block]:
    if not story.openings:
        return
    rows = [
        (_time(one.opened), one.who, one.command, " ".join(one.tasks), one.source)
        for one in story.openings
    ]
    yield Heading("Test sets were opened", 2)
    yield Table(("when", "by", "command", "tasks", "source"), tuple(rows))


def _siblings(story: TrialDetails) -> Iterator[Block]:
    if not story.siblings:
        return
    rows = [(str(one.seed), one.key, one.state, _hundred(one.value)) for one in story.siblings]
    yield Heading("Other seeds of the configuration", 2)
    yield Table(("seed", "trial", "state", f"dev {story.dev.search}"), tuple(rows))


def _origin(story: TrialDetails) -> Iterator[Block]:
    if story.provenance:
        yield Heading("It ran on", 2)
        yield _table(story.provenance)
    for place, start in enumerate(story.starts):
        again = "again " if place else ""
        yield Heading(f"Sweep {start.sweep}, started {again}{_time(start.started)}", 2)
        yield _table(start.provenance)
        yield from _code(start)


def _code(start: SweepStart) -> Iterator[Block]:
    for name, diff in start.diffs.items():
        count = len(diff.splitlines())
        yield Paragraph(
            f"The {name} code differed from its commit by a diff of {count} lines; "
            "--json and reproduce give it."
        )
    if start.packages:
        listed = ", ".join(f"{name} {version}" for name, version in start.packages.items())
        yield Paragraph(f"Packages: {listed}")


def _table(facts: Mapping[str, str | None]) -> Table:
    return Table(("", ""), tuple((name, value) for name, value in facts.items() if value))


def _text(value: Any) -> str:
    """A setting's value on one line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def _hundred(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.2f}"


def _metric(name: str, metrics: Mapping[str, float | None]) -> str:
    """Nothing for one that was not reported; NaN is stored as None."""
    if name not in metrics:
        return ""
    value = metrics[name]
    if value is None:
        return "NaN"
    return _hundred(value) if name.endswith(("_spearman", "_accuracy")) else f"{value:.4g}"
