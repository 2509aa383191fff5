"""The page of a trial, and its tables. Correlations and accuracies are x 100."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from cse_methods.data.dev_selection import dev_metric, parse_width_metric, scores_by_width
from cse_methods.names import TASKS, task_name
from cse_methods.published.released import declared_training, teachers_of
from cse_methods.tasks import GEOMETRY_METRICS
from cse_platform.leaderboard.records import Annotations, DevPoint, SeenIn
from cse_platform.leaderboard.trial_details import SweepStart, TrialDetails
from cse_platform.numbers import HASH_DIGITS, format_count, percent, utc
from cse_platform.presentation.board_columns import COST_HEADS, STARRED, cost_cell
from cse_platform.presentation.evaluation import make_width_table
from cse_platform.presentation.tables import (
    Block,
    Column,
    Curve,
    Heading,
    Paragraph,
    Table,
    text_table,
    to_table,
)
from cse_platform.tracking.events import MAIN_METRICS, TrialScore
from cse_platform.tracking.history import EPOCH_MINUTES, EPOCHS
from cse_platform.tracking.method_code import METHOD_SOURCE
from cse_platform.values import group_by

IDENTITY_DIGITS = 12
"""Number of digits of an identity on the page; --json has all of them."""


def trial_page(
    trial: TrialDetails, *, options: str, has_output: bool, best: Mapping[str, Any] | None = None
) -> Iterator[Block]:
    """Yield the blocks of the page of a trial; correlations and accuracies are x 100.

    `options` are those with which a command finds this leaderboard, empty or after a blank.
    `has_output` says whether `cse-sweep logs` shows what the trial has printed. `best` has the
    hyperparameters of the best trial of its sweep; those that differ are shown, too.
    """
    yield Heading(f"Trial {trial.key}", 1)
    step = "" if trial.best_step is None else f" at step {trial.best_step}"
    untrained = "" if trial.untrained is None else f" (untrained {percent(trial.untrained)})"
    value = f"dev {trial.dev.search} {percent(trial.best_value)}{step}{untrained}"
    if trial.best_value is None:
        value = f"no dev value on {trial.dev.search}"
    yield Paragraph(f"{trial.state}, {value}")
    if trial.error:
        yield Paragraph(f"Error: {trial.error}")
        for entry in trial.sweeps[:has_output]:
            logs = f"cse-sweep logs {shlex.quote(entry.sweep)} --trial {entry.number}{options}"
            yield Paragraph(f"Its output: {logs}")
    yield make_facts_table(_collect_facts(trial))
    if trial.configuration.values:
        yield Heading("Hyperparameters", 2)
        yield settings_table(trial, best)
    yield from _build_model_section(trial, options)
    yield from _build_curve_section(trial)
    if trial.scores:
        yield Heading("Scores, x 100", 2)
        main = trial.main_scores
        yield scores_table(main, digits=IDENTITY_DIGITS)
        if others := len(trial.scores) - len(main):
            command = f"cse-leaderboard show {trial.key[:HASH_DIGITS]} --json{options}"
            yield Paragraph(f"{format_count(others, 'other score')}: {command}")
    yield from _build_training_section(trial, options)
    if trial.test_accesses:
        yield Heading("Test sets were opened", 2)
        yield text_table(
            ("when", "by", "command", "tasks", "source"),
            [
                (utc(opened), who, command, " ".join(tasks), source)
                for opened, who, command, tasks, source in map(
                    itemgetter("opened", "who", "command", "tasks", "source"), trial.test_accesses
                )
            ],
        )
    yield from _build_seeds_section(trial)
    if trial.provenance:
        yield Heading("It ran on", 2)
        yield make_facts_table(trial.provenance)
    for index, start in enumerate(trial.starts):
        yield from _build_start_section(trial, start, options, again="again " if index else "")


def _build_seeds_section(trial: TrialDetails) -> Iterator[Block]:
    """List the other seeds of the configuration, and the dev score over all."""
    if trial.siblings:
        yield Heading("Other seeds of the configuration", 2)
        yield text_table(
            ("seed", "trial", "state", f"dev {trial.dev.search}"),
            [
                (str(sibling.seed), sibling.key, sibling.state, percent(sibling.best_value))
                for sibling in trial.siblings
            ],
        )
    if (over := trial.over_seeds) is not None and over.n > 1:
        text = f"Over seeds {', '.join(map(str, over.values))}: dev {trial.dev.search} "
        text += f"{percent(over.mean)} ± {percent(over.std)}"
        if over.counts_choice:
            text += "; if one of these chose it as the best of a search, the mean is too high"
        elif over.left_out:
            chosen = ", ".join(f"{percent(v)} (seed {seed})" for seed, v in over.left_out.items())
            verb = "do" if len(over.left_out) > 1 else "does"
            text += f"; chosen by {chosen}, which {verb} not count"
        yield Paragraph(f"{text}.")


def _build_model_section(trial: TrialDetails, options: str) -> Iterator[Block]:
    """Say where the model is and how it is used, or why there is none."""
    yield Heading("Model", 2)
    key = trial.key[:HASH_DIGITS]
    if trial.model is None:
        reproduction = explain_reproduction(trial, options)
        yield Paragraph(f"None was kept: {explain_missing_model(trial)}. {reproduction}.")
    else:
        yield Paragraph(trial.model)
        lines = [f"cse-evaluate {key}{options}", f"cse-leaderboard export {key} DIR{options}"]
        from cse_methods.files.places import is_remote  # imports pyarrow

        if not is_remote(trial.model):
            load = f"SentenceTransformer({trial.model!r})"
            lines.append(f"{load}  # pip install sentence-transformers")
        yield Paragraph("\n".join(lines))


def explain_missing_model(trial: TrialDetails) -> str:
    """Say why a trial has no model."""
    if trial.origin is not None:
        return f"it was {trial.origin}, without its model"
    if trial.model_deleted is not None:
        return (
            f"it was deleted on {trial.model_deleted:%Y-%m-%d}, because its sweep keeps only "
            "the models of the best trials"
        )
    why = {
        "RUNNING": "it is not finished",
        "PRUNED": "it was pruned",
        "FAIL": "it failed",
        "COMPLETE": "its best checkpoint was not kept",
    }
    return why[trial.state]


def explain_reproduction(trial: TrialDetails, options: str = "") -> str:
    """Say which command reproduces a trial, with the options `where`, and what it writes."""
    written = "what trains it again"
    if trial.origin is not None:
        written = "a sweep file to complete by hand, for a trial with another key"
    return f"cse-leaderboard reproduce {trial.key[:HASH_DIGITS]}{options} writes {written}"


def _build_start_section(
    trial: TrialDetails, start: SweepStart, options: str, *, again: str
) -> Iterator[Block]:
    """Describe the code and the packages of a start of the sweep that ran the trial."""
    yield Heading(f"Sweep {start.sweep}, started {again}{utc(start.started)}", 2)
    yield make_facts_table(start.provenance)
    for name, diff in start.diffs.items():
        yield Paragraph(
            f"The {name} code differed from its commit by a diff of {len(diff.splitlines())} "
            "lines; --json and reproduce give it."
        )
    if start.packages:
        count = format_count(len(start.packages), "package")
        shown = f"cse-leaderboard show {trial.key[:HASH_DIGITS]} --json{options}"
        yield Paragraph(f"It had {count}; their versions: {shown}")
    if METHOD_SOURCE in start.provenance:
        shown = f"cse-leaderboard show {trial.key[:HASH_DIGITS]} --code{options}"
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


def written_lines(written: Annotations, *, of: str = "") -> dict[str, str]:
    """Format the star and the note, each on one line with author and time; `of` prefixes their
    names.
    """
    lines = {}
    if (star := written.star) is not None:
        lines[f"{of}star"] = f"{STARRED} {star.who}, {utc(star.time)}"
    if (note := written.note) is not None:
        lines[f"{of}note"] = f"{' '.join(note.text.split())} ({note.who}, {utc(note.time)})"
    return lines


def scores_table(scores: Sequence[TrialScore], *, digits: int) -> Table:
    """Make a table of scores, with so many digits of the identities of their evaluations.

    Correlations and accuracies are x 100, others as they are.
    """
    return text_table(
        ("task", "split", "metric", "value", "identity"),
        [(s.task, s.split, s.metric, _format_score(s), s.identity[:digits]) for s in scores],
    )


def score_grid(scores: Sequence[TrialScore]) -> Table:
    """Make a table of scores with a row for each task and split, and a column for each metric.

    A task that a metric scored twice, on other data or with other settings, has a row for each
    evaluation, by the first digits of its identity. Scores that are given twice are shown once.
    Units are those of `scores_table`.
    """
    rows = dict[tuple[str, str, str], dict[str, str]]()
    for (split, task), of_task in group_by(scores, lambda s: (s.split, s.task)).items():
        told = {(score.metric, score.identity): _format_score(score) for score in of_task}
        several = len(told) > len({metric for metric, _ in told})
        for (metric, identity), value in told.items():
            rows.setdefault((split, task, identity[:HASH_DIGITS] * several), {})[metric] = value
    tasks = list(dict.fromkeys([*TASKS, *(task for _, task, _ in rows)]))
    order = sorted(rows, key=lambda row: (row[0], tasks.index(row[1]), row[2]))

    def column(metric: str) -> Column[tuple[str, str, str]]:
        return Column(metric, lambda row: rows[row].get(metric), align="right")

    names = Column[tuple[str, str, str]](
        "task", lambda row: task_name(row[1]) + f" ({row[2]})" * bool(row[2])
    )
    splits = Column[tuple[str, str, str]]("split", lambda row: row[0])
    metrics = dict.fromkeys(score.metric for score in scores)
    return to_table([names, splits, *map(column, metrics)], [order])


def _format_score(score: TrialScore) -> str:
    return f"{score.value:.4f}" if score.metric in GEOMETRY_METRICS else percent(score.value)


def _collect_facts(trial: TrialDetails) -> dict[str, str | None]:
    ours = trial.origin is None
    part = trial.costs.get(EPOCHS, 1) < 1
    return {
        "sweeps": ", ".join(
            f"{entry.sweep} #{entry.number} ({entry.role})" for entry in trial.sweeps
        ),
        "tags": ", ".join(trial.tags) or None,
        **written_lines(trial.written),
        **written_lines(trial.of_configuration, of="configuration's "),
        "origin": trial.origin,
        "method": f"{trial.method}, revision {trial.revision}" if ours else trial.method,
        "code": (trial.configuration.code or "unknown") if ours else None,
        "backbone": trial.backbone,
        "corpus": trial.shown_corpus,
        "marks": ", ".join(trial.marks) or None,
        "seed": str(trial.seed),
        "configuration": trial.configuration.hash,
        "dev sets": f"{trial.dev.checkpoint} picks the checkpoint, the search climbs "
        f"{trial.dev.search}; {trial.dev.source}",
        "dev identity": trial.dev.identity,
        "started": utc(trial.started),
        "finished": None if trial.finished is None else utc(trial.finished),
        "seconds": None if trial.wall_seconds is None else f"{trial.wall_seconds:.1f}",
        "GPU-hours": f"{trial.gpu_hours:.2f}" if ours else None,
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
        is_score = any(name.endswith(f"_{metric}") for metric in MAIN_METRICS)
        return percent(value) if is_score else f"{value:.4g}"

    names = list(dict.fromkeys(name for point in trial.curve for name in point.metrics))
    names = [name for name in names if parse_width_metric(name) is None]
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
    for point in trial.curve:
        if point.kept:
            title = f"First coordinates alone at step {point.step}, Spearman on dev x 100"
            yield from make_width_table(title, scores_by_width(point.metrics))


_SEEN_IN: dict[SeenIn, str] = {
    "corpus": "training corpus",
    "teachers": "teachers' corpora",
    "dev": "own dev files",
}


def _build_training_section(trial: TrialDetails, options: str) -> Iterator[Block]:
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
            f" cse-evaluate {trial.key[:HASH_DIGITS]}{options} counts them." if trial.model else ""
        )
        yield Paragraph(
            "Test sentences among them have not been counted: it was scored elsewhere or by an "
            f"earlier version.{counts}"
        )
    if trial.seen:
        yield Heading("Distinct sentences of test and dev sets found there", 3)
        tested = {(seen.task, seen.source) for seen in trial.seen if seen.split == "test"}
        sources = group_by(tested, itemgetter(0))
        yield text_table(
            ("set", "split", "in", "names", "sentences", "found", "of 100"),
            [
                (
                    seen.task + f" ({seen.source})" * (len(sources.get(seen.task, ())) > 1),
                    *(seen.split, _SEEN_IN[seen.seen_in], ", ".join(seen.names)),
                    *(f"{seen.sentences:,}", f"{seen.seen:,}", percent(seen.share)),
                )
                for seen in trial.seen
            ],
        )


def make_facts_table(facts: Mapping[str, str | None]) -> Table:
    """Make a table of names and values, without unknown ones."""
    return text_table(("", ""), [(name, value) for name, value in facts.items() if value])


def _format_setting(value: Any) -> str:
    """Format a setting's value on one line: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
