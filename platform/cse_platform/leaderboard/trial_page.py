"""The page of one trial."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from cse_methods.data.dev_selection import dev_metric
from cse_methods.files.places import is_remote
from cse_methods.published.released import declared_training, teachers_of
from cse_methods.tasks import GEOMETRY_METRICS
from cse_platform.leaderboard.columns import (
    COST_HEADS,
    STARRED,
    cost_cell,
)
from cse_platform.leaderboard.records import Annotations, DevPoint, Place
from cse_platform.leaderboard.trial_details import SweepStart, TrialDetails
from cse_platform.render.formats import HASH_DIGITS, percent, utc
from cse_platform.render.page import Block, Curve, Heading, Page, Paragraph
from cse_platform.render.table import Table, text_table
from cse_platform.tracking.history import EPOCH_MINUTES, EPOCHS
from cse_platform.tracking.method_code import METHOD_SOURCE

IDENTITY_DIGITS = 12
"""Number of digits of an identity on the page; --json has all of them."""


def trial_page(trial: TrialDetails, *, where: str, best: Mapping[str, Any] | None = None) -> Page:
    """Build the page of a trial; correlations and accuracies are x 100.

    `where` has the options with which a command finds this leaderboard, from `leaderboard_options`.
    `best` has the hyperparameters of the best trial of its sweep; those that differ are shown
    beside its own.
    """
    return list(_build_blocks(trial, where, best))


def _build_blocks(
    trial: TrialDetails, where: str, best: Mapping[str, Any] | None
) -> Iterator[Block]:
    yield Heading(f"Trial {trial.key}", 1)
    step = "" if trial.best_step is None else f" at step {trial.best_step}"
    untrained = "" if trial.untrained is None else f" (untrained {percent(trial.untrained)})"
    value = f"dev {trial.dev.search} {percent(trial.best_value)}{step}{untrained}"
    if trial.best_value is None:
        value = f"no dev value on {trial.dev.search}"
    yield Paragraph(f"{trial.state}, {value}")
    if trial.error:
        yield Paragraph(f"Error: {trial.error}")
        for place in trial.sweeps[:1]:
            logs = f"cse-sweep logs {shlex.quote(place.sweep)} --trial {place.number}{where}"
            yield Paragraph(f"Its output: {logs}")
    yield _make_facts_table(_collect_facts(trial))
    if trial.configuration.values:
        yield Heading("Hyperparameters", 2)
        yield settings_table(trial, best)
    yield Heading("Model", 2)
    key = trial.key[:HASH_DIGITS]
    if trial.model is None:
        yield Paragraph(
            f"None was kept: {trial.why_no_model}. "
            f"cse-leaderboard reproduce {key}{where} writes {trial.again}."
        )
    else:
        yield Paragraph(trial.model)
        lines = [f"cse-evaluate {key}{where}", f"cse-leaderboard export {key} DIR{where}"]
        if not is_remote(trial.model):
            load = f"SentenceTransformer({trial.model!r})"
            lines.append(f"{load}  # pip install sentence-transformers")
        yield Paragraph("\n".join(lines))
    yield from _build_curve_section(trial)
    yield from _build_scores_section(trial)
    yield from _build_training_section(trial, where)
    if trial.test_accesses:
        yield Heading("Test sets were opened", 2)
        yield text_table(
            ("when", "by", "command", "tasks", "source"),
            [
                (utc(each.opened), each.who, each.command, " ".join(each.tasks), each.source)
                for each in trial.test_accesses
            ],
        )
    if trial.siblings:
        yield Heading("Other seeds of the configuration", 2)
        yield text_table(
            ("seed", "trial", "state", f"dev {trial.dev.search}"),
            [
                (str(sibling.seed), sibling.key, sibling.state, percent(sibling.value))
                for sibling in trial.siblings
            ],
        )
    if trial.provenance:
        yield Heading("It ran on", 2)
        yield _make_facts_table(trial.provenance)
    for index, start in enumerate(trial.starts):
        yield from _build_start_section(trial, start, where, again="again " if index else "")


def _build_start_section(
    trial: TrialDetails, start: SweepStart, where: str, *, again: str
) -> Iterator[Block]:
    """Describe the code and the packages of a start of the sweep that ran the trial."""
    yield Heading(f"Sweep {start.sweep}, started {again}{utc(start.started)}", 2)
    yield _make_facts_table(start.provenance)
    for name, diff in start.diffs.items():
        yield Paragraph(
            f"The {name} code differed from its commit by a diff of {len(diff.splitlines())} "
            "lines; --json and reproduce give it."
        )
    if start.packages:
        listed = ", ".join(f"{name} {version}" for name, version in start.packages.items())
        yield Paragraph(f"Packages: {listed}")
    if METHOD_SOURCE in start.provenance:
        shown = f"cse-leaderboard show {trial.key[:HASH_DIGITS]} --code{where}"
        yield Paragraph(f"The source of its method is kept: {shown}")


def settings_table(trial: TrialDetails, best: Mapping[str, Any] | None = None) -> Table:
    """Make a table of all hyperparameters: which are searched, and which differ in `best`."""
    searched, values = set(trial.configuration.searched), trial.configuration.values
    return text_table(
        ("hyperparameter", "value", "", "the sweep's best"),
        [
            (
                name,
                _format_setting(value),
                "searched" if name in searched else "",
                _format_setting(best[name]) if best and best.get(name, value) != value else "",
            )
            for name, value in values.items()
        ],
    )


def written_lines(said: Annotations, *, of: str = "") -> dict[str, str]:
    """Format the star and the note, each on one line with author and time; `of` prefixes their
    names.
    """
    lines = {}
    if (star := said.star) is not None:
        lines[f"{of}star"] = f"{STARRED} {star.who}, {utc(star.time)}"
    if (note := said.note) is not None:
        lines[f"{of}note"] = f"{' '.join(note.text.split())} ({note.who}, {utc(note.time)})"
    return lines


def score_text(metric: str, value: float) -> str:
    """Format a score: correlations and accuracies x 100, others as they are."""
    return f"{value:.4f}" if metric in GEOMETRY_METRICS else percent(value)


def _collect_facts(trial: TrialDetails) -> dict[str, str | None]:
    ours = trial.imported_from is None
    part = trial.costs.get(EPOCHS, 1) < 1
    return {
        "sweeps": ", ".join(
            f"{place.sweep} #{place.number} ({place.role})" for place in trial.sweeps
        ),
        "tags": ", ".join(trial.tags) or None,
        **written_lines(trial.written),
        **written_lines(trial.of_configuration, of="configuration's "),
        "imported from": trial.imported_from,
        "method": f"{trial.method}, revision {trial.revision}" if ours else trial.method,
        "code": (trial.configuration.code or "unknown") if ours else None,
        "backbone": trial.backbone,
        "corpus": trial.corpus,
        "marks": ", ".join(trial.marks) or None,
        "seed": None if trial.averages else str(trial.seed),
        "average of": ", ".join(
            f"{one.key[:HASH_DIGITS]} (seed {one.seed}, dev {percent(one.value)})"
            for one in trial.averages
        )
        or None,
        "configuration": trial.configuration.hash,
        "dev sets": f"{trial.dev.checkpoint} picks the checkpoint, the search climbs "
        f"{trial.dev.search}; {trial.dev.source}",
        "dev identity": trial.dev.identity,
        "started": utc(trial.started),
        "finished": None if trial.finished is None else utc(trial.finished),
        "seconds": None if trial.wall_seconds is None else f"{trial.wall_seconds:.1f}",
        "GPU-hours": f"{trial.gpu_hours:.2f}",
        **{
            head: cost_cell(
                name, trial.costs[name], extrapolated=part and name == EPOCH_MINUTES
            ).plain
            for name, head in COST_HEADS.items()
            if name in trial.costs
        },
        "machine": trial.machine,
    }


def _build_curve_section(trial: TrialDetails) -> Iterator[Block]:
    if not trial.curve:
        return
    yield Heading(f"Dev curve, {dev_metric(trial.dev.search)} x 100", 2)
    points = tuple((point.step, point.value) for point in trial.curve)
    if any(value is not None for _, value in points):
        yield Curve(points, trial.best_step)

    def format_metric(point: DevPoint, name: str) -> str:
        """Format a metric; empty if it was not reported. NaN is stored as None."""
        if (value := point.metrics.get(name)) is None:
            return "NaN" if name in point.metrics else ""
        return percent(value) if name.endswith(("_spearman", "_accuracy")) else f"{value:.4g}"

    names = list(dict.fromkeys(name for point in trial.curve for name in point.metrics))
    for group in dict.fromkeys(name.partition("/")[0] for name in names):
        shown = [name for name in names if name.partition("/")[0] == group]
        yield Heading(group, 3)
        yield text_table(
            ("step", *(name.removeprefix(f"{group}/") for name in shown)),
            [
                (str(point.step), *(format_metric(point, name) for name in shown))
                for point in trial.curve
            ],
        )


def _build_scores_section(trial: TrialDetails) -> Iterator[Block]:
    if not trial.scores:
        return
    main = trial.main_scores
    yield Heading("Scores, x 100", 2)
    yield text_table(
        ("task", "split", "metric", "value", "identity"),
        [
            (
                score.task,
                score.split,
                score.metric,
                score_text(score.metric, score.value),
                score.identity[:IDENTITY_DIGITS],
            )
            for score in (*main, *(score for score in trial.scores if score not in main))
        ],
    )


_PLACES: dict[Place, str] = {
    "corpus": "training corpus",
    "teachers": "teachers' corpora",
    "dev": "own dev files",
}


def _build_training_section(trial: TrialDetails, where: str) -> Iterator[Block]:
    """List what its encoders were trained on, and how many test and dev sentences it has seen."""
    teachers = teachers_of(trial.configuration.values)
    named = [("backbone", trial.backbone), *(("teacher", name) for name in teachers)]
    declared = [(role, name, declared_training(name)) for role, name in named]
    if not trial.test_accesses and not any(known for _, _, known in declared):
        return
    yield Heading("What it was trained on", 2)
    yield text_table(
        ("", "encoder", "trained on", "pairs", "source"),
        [
            (
                role,
                name,
                known.trained_on if known else "unknown",
                "yes" if known and known.pairs else "",
                known.source if known else "",
            )
            for role, name, known in declared
        ],
    )
    if trial.test_accesses and not trial.seen:
        counts = (
            f" cse-evaluate {trial.key[:HASH_DIGITS]}{where} counts them." if trial.model else ""
        )
        yield Paragraph(
            "Test sentences among them have not been counted: it was scored elsewhere or by an "
            f"earlier version.{counts}"
        )
    if trial.seen:
        yield Heading("Distinct sentences of test and dev sets found there", 3)
        yield text_table(
            ("set", "split", "in", "names", "sentences", "found", "of 100"),
            [
                (
                    *(one.task, one.split, _PLACES[one.place], ", ".join(one.names)),
                    *(f"{one.sentences:,}", f"{one.found:,}", percent(one.share)),
                )
                for one in trial.seen
            ],
        )


def _make_facts_table(facts: Mapping[str, str | None]) -> Table:
    return text_table(("", ""), [(name, value) for name, value in facts.items() if value])


def _format_setting(value: Any) -> str:
    """Format a setting's value on one line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
