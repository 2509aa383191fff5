"""Sets our numbers beside those of a paper's table, and tells how far our trials fill the papers'
tables and figures.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from cse_methods.registry import available_methods
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, Tasks
from cse_platform.leaderboard.published.matching import (
    PAPERS,
    PAPERS_DEV,
    has_settings_of,
    is_comparable,
    matches_any_row,
)
from cse_platform.leaderboard.published.rows import (
    ABOUT_THE_RUN,
    ENDINGS,
    HARDWARE,
    SELECTED_ON,
    PublishedRow,
    PublishedSplit,
)
from cse_platform.leaderboard.records import (
    BestKey,
    ConfigurationSetup,
    Estimate,
    LeaderboardRow,
    best_key,
)
from cse_platform.leaderboard.statistics.intervals import Interval, seed_interval
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.shipped import SHIPPED
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import COSTS, TRAIN_MINUTES
from cse_platform.values import group_by

RELEASED, BASELINES = "released", "baselines"
"""Names used in place of a paper: for the file of released encoders, which are scored and not
trained, and for that of the systems that the papers cite as baselines."""
OF_ALL_PAPERS = (BASELINES, RELEASED)
WHOLE = "all"
"""The name used in place of a table for a paper's file of all its tables."""
TrialId = tuple[str, int]
"""A configuration's id, made by `_format_setup_id`, and a seed."""
Verdict = Literal["within noise", "above", "below", "noise not known"]
LeftOut = Literal[
    "out of memory", "not tried", "system not run", "backbone not run", "no hyperparameter"
]
"""Why no file fills a number: the paper's own trial ran out of memory; no file tries the settings;
the system is not run here, at all or on that backbone; the setting is no hyperparameter, such as a
cut corpus.
"""


@dataclass(frozen=True)
class CellGap:
    """Our number minus the one that the paper prints."""

    value: float
    """A fraction; for a cost, in its own unit."""
    interval: Interval | None
    """Confidence interval of the difference over our seeds, and over the paper's if it prints their
    standard deviation. None if ours is of one seed.
    """

    @property
    def verdict(self) -> Verdict:
        """Whether the difference exceeds the variation over seeds."""
        if self.interval is None:
            return "noise not known"
        if self.interval.low > 0:
            return "above"
        return "below" if self.interval.high < 0 else "within noise"


@dataclass(frozen=True)
class PaperLine:
    """A row of the paper's table, with our numbers."""

    row: PublishedRow
    ours: dict[str, Estimate] = field(default_factory=dict)
    """Our numbers by column; empty if no row of ours matches."""
    configuration: str | None = None
    """The hash of our configuration."""
    released: str | None = None
    """The released encoder, if our numbers are of one; None if they were trained here."""
    cautions: tuple[str, ...] = ()
    """What a reader must know of our scores, as of `LeaderboardRow.cautions`; none of costs."""

    @property
    def gaps(self) -> dict[str, CellGap]:
        """The differences of the columns that have a number of ours."""
        gaps = {}
        for column, ours in self.ours.items():
            printed, std = self.row.scores[column], self.row.std.get(column)
            values = list(ours.values.values())
            interval = seed_interval(values, printed=printed, std=std, n=self.row.seeds)
            gaps[column] = CellGap(ours.mean - printed, interval)
        return gaps

    @property
    def n(self) -> int:
        """The number of our seeds, the fewest of any column; 0 if no row of ours matches."""
        return min((estimate.n for estimate in self.ours.values()), default=0)


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper in its own order, grouped by backbone, with our numbers."""

    paper: str
    table: str
    columns: tuple[str, ...]
    lines: tuple[PaperLine, ...]
    unstated: tuple[str, ...] = ()
    """Columns whose metric the paper does not state; ours are accuracies."""
    has_several_dev_sets: bool = False
    """Whether rows of ours on several dev sets match a line; it has the one with the highest mean.
    """
    identities: dict[str, int] = field(default_factory=dict)
    """The numbers of evaluation identities of our scores, of columns that have several."""
    left_out: int = 0
    """The number of our rows whose scores are left out, as they are on built-in or imported data.
    """
    other_dev_sets: tuple[str, ...] = ()
    """The dev sets of our rows that match a line but for them."""
    hardware: str | None = None
    """The hardware of the paper's costs, if it prints any and names it."""
    our_hardware: tuple[str, ...] = ()
    """The hardware of our costs."""
    has_extrapolated: bool = False
    """Whether a cost of ours is extrapolated from less than an epoch."""


@dataclass(frozen=True)
class PlannedConfiguration:
    """A configuration that a stage of a sweep file runs."""

    stage: SweepSpec
    setup: ConfigurationSetup

    def columns(self, split: PublishedSplit) -> set[str]:
        """Find the columns of papers' tables that its trials give a number for."""
        if split == "train":
            return cost_columns(self.setup.values)
        if split == "dev":
            return {self.stage.dev.search_name}
        tasks = self.stage.evaluate.parsed_tasks if self.stage.evaluate else Tasks()
        sts = (*tasks.sts, AVG_STS) if tasks.sts else ()
        transfer = (*tasks.transfer, AVG_TRANSFER) if tasks.transfer else ()
        ranking = (*tasks.ranking, AVG_STS) if tasks.ranking else ()
        ranked = {f"{task}{ending}" for task in ranking for ending in ENDINGS.values()}
        return {*sts, *transfer, *tasks.long, *ranked}


@dataclass(frozen=True)
class PaperFile:
    """A sweep file of a paper, or one that fills rows of all papers."""

    path: Path
    configurations: tuple[PlannedConfiguration, ...]
    trials: tuple[TrialId, ...]
    """All trials that it runs; a trial of several stages is listed several times. If a stage
    confirms its best configurations, the first ones of its grid stand in for them.
    """

    @property
    def paper(self) -> str:
        return self.path.stem.partition("-")[0]

    @property
    def table(self) -> str:
        """`table4`, `figure3`, or `all`."""
        return self.path.stem.partition("-")[2] or WHOLE

    def columns_filled(self, row: PublishedRow) -> set[str]:
        """Find the columns of a published row that its trials give a number for."""
        fitting = (each for each in self.configurations if has_settings_of(row, each.setup))
        return row.scores.keys() & set().union(*(each.columns(row.split) for each in fitting))

    def progress(self, done: set[TrialId]) -> dict[str, Any]:
        """Return the fields of `PaperProgress` about the file."""
        trials = set(self.trials)
        counts = {"trials": len(trials), "trials_done": len(trials & done)}
        return {"file": str(self.path), **counts}


@dataclass(frozen=True)
class PaperProgress:
    """The progress of a table or figure of a paper, or of a whole paper."""

    paper: str
    table: str
    """`table4`, `figure3`, or `all`."""
    file: str | None
    """The file that fills it; None if there is none."""
    rows: int
    """Rows of the table that a file of the paper or a trial of ours fills, fully or partly."""
    rows_filled: int
    """Rows for which we have a number."""
    cells: int
    """Printed numbers that a file of the paper or a trial of ours fills."""
    cells_filled: int
    """Printed numbers for which we have our own."""
    left_out: dict[LeftOut, int]
    """Counts of the other printed numbers, by the reason."""
    trials: int
    """The number of distinct trials that the file runs."""
    trials_done: int

    @property
    def is_printed(self) -> bool:
        """Whether it is one table with printed numbers; figures and settings have none."""
        return self.table != WHOLE and bool(self.cells or self.left_out)


def paper_table(rows: Sequence[PublishedRow], ours: Sequence[LeaderboardRow]) -> PaperTable:
    """Lay out our rows as a table of a paper, which has these rows.

    Each line shows, of our configurations that match it and have a score in it, the best on dev;
    its seeds are those with scores there. For a line of dev scores, only rows selected on that dev
    set count. `ours` has a row for every configuration; scores on built-in or imported data are
    left out.
    """
    columns = tuple(dict.fromkeys(column for row in rows for column in row.scores))
    backbones = list(dict.fromkeys(row.backbone for row in rows))
    rows = sorted(rows, key=lambda row: backbones.index(row.backbone))
    candidates = [[r for r in ours if _select_comparable_scores(row, r)] for row in rows]
    lines = tuple(map(line_of_row, rows, candidates))
    scores = {c: [line.ours[c] for line in lines if c in line.ours] for c in columns}
    costs = [cost for column in columns if column in COSTS for cost in scores[column]]
    identities = {c: len({s.identity for s in scores[c]}) for c in columns if c not in COSTS}
    left_out = sum(
        any(
            not is_comparable(score, our_row.dev)
            for row in rows
            for score in _select_matching_numbers(row, our_row).values()
        )
        for our_row in ours
    )
    unstated = {column for row in rows for column in row.unstated}
    return PaperTable(
        rows[0].paper,
        rows[0].table,
        columns,
        lines,
        unstated=tuple(column for column in columns if column in unstated),
        has_several_dev_sets=any(
            len({r.dev.identity for r in matching}) > 1 for matching in candidates
        ),
        identities={column: n for column, n in identities.items() if n > 1},
        left_out=left_out,
        other_dev_sets=tuple(dict.fromkeys(_find_other_dev_sets(rows, ours))),
        hardware=HARDWARE.get(rows[0].paper),
        our_hardware=tuple(sorted({cost.identity for cost in costs})),
        has_extrapolated=any(r.epoch_is_extrapolated for each in candidates for r in each),
    )


def _find_other_dev_sets(
    rows: Iterable[PublishedRow], ours: Sequence[LeaderboardRow]
) -> Iterator[str]:
    """Find the dev sets of our rows that match one of the paper's rows but for them."""
    for row in rows:
        stated = row.settings.get(SELECTED_ON)
        accepted = PAPERS_DEV if stated is None else {stated}
        for our_row in ours:
            setup = our_row.setup._replace(dev_search=next(iter(accepted)))
            trained = our_row.released is None and our_row.dev.search not in accepted
            if trained and has_settings_of(row, setup):
                yield our_row.dev.search


def line_of_row(row: PublishedRow, ours: Iterable[LeaderboardRow]) -> PaperLine:
    """Build the line of a paper's row from our best configuration on dev that has a number."""

    def key(scored: tuple[LeaderboardRow, dict[str, Estimate]]) -> tuple[bool, BestKey]:
        our_row, standing = scored[0], min(score.standing for score in scored[1].values())
        mean, name = our_row.dev_score.mean, our_row.configuration.hash
        return our_row.released is None, best_key(standing=standing, mean=mean, configuration=name)

    scored = ((our_row, _select_comparable_scores(row, our_row)) for our_row in ours)
    best, scores = max((pair for pair in scored if pair[1]), key=key, default=(None, {}))
    if best is None:
        return PaperLine(row)
    released = best.backbone if best.released else None
    cautions = () if row.split == "train" else best.seen_on(scores).cautions(scores.values())
    return PaperLine(row, scores, best.configuration.hash, released, cautions)


def _select_comparable_scores(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Select our scores in the columns of a published row that can be compared with it."""
    numbers = _select_matching_numbers(row, ours).items()
    return {column: score for column, score in numbers if is_comparable(score, ours.dev)}


def _select_matching_numbers(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Select our numbers in the columns of a published row; none if ours does not match it."""
    if not has_settings_of(row, ours.setup):
        return {}
    columns = cost_columns(ours.configuration.values)
    by_split: dict[PublishedSplit, Mapping[str, Estimate]] = {
        "test": ours.scores,
        "dev": {ours.dev.search: ours.dev_score},
        "train": {column: cost for column, cost in ours.costs.items() if column in columns},
    }
    numbers = by_split[row.split]
    return {column: numbers[column] for column in row.scores if column in numbers}


def cost_columns(values: Mapping[str, Any]) -> set[str]:
    """List the cost columns that a configuration can fill; with `max_steps`, no train minutes."""
    return set(COSTS) - ({TRAIN_MINUTES} if "max_steps" in values else set())


def read_paper_files() -> tuple[PaperFile, ...]:
    """Read the sweep files: those of `sweeps/` in the working directory, else the shipped ones.

    Raises SweepFileError if one of the files is not a valid sweep.
    """
    local = Path("sweeps")
    folder = local if any(local.glob("papers/*.yaml")) else SHIPPED
    shared = [folder / f"{name}.yaml" for name in OF_ALL_PAPERS]
    paths = [*sorted(folder.glob("papers/*.yaml")), *filter(Path.is_file, shared)]
    return _read_files(tuple(paths), max(path.stat().st_mtime_ns for path in paths))


@cache
def _read_files(paths: tuple[Path, ...], newest: int) -> tuple[PaperFile, ...]:
    """Read the files; cached until one of them changes."""
    del newest
    return tuple(map(read_paper_file, paths))


def read_paper_file(path: Path) -> PaperFile:
    """Read one file and plan its trials. Raises SweepFileError if it is not a valid sweep."""
    stages = load_sweep(path).stages
    configurations, trials = list[PlannedConfiguration](), list[TrialId]()
    for stage in stages:
        seeds, planned = stage.seeds, plan_configurations(stage)
        configurations += planned
        sweep = stage.sweep if any(corpus.split_at for corpus in stage.corpus) else ""
        for index, configuration in enumerate(planned):
            confirmed = seeds.confirm is not None and index < seeds.confirm.top
            name = _format_setup_id(configuration.setup, sweep=sweep)
            further = seeds.further if confirmed else ()
            trials += [(name, seed) for seed in (seeds.search, *further)]
    return PaperFile(path, tuple(configurations), tuple(trials))


def plan_configurations(stage: SweepSpec) -> list[PlannedConfiguration]:
    """List the configurations of a stage's grid; other samplers plan none."""
    if stage.search.sampler.kind != "grid":
        return []
    corpus = "+".join(part.short_name for part in stage.corpus)
    return [
        PlannedConfiguration(
            stage,
            ConfigurationSetup(
                stage.method,
                stage.backbone,
                corpus,
                stage.dev.search_name,
                stage.config(point).hyperparameters(),
                stage.evaluate is not None,
            ),
        )
        for point in stage.grid_points()
    ]


def _format_setup_id(setup: ConfigurationSetup, *, sweep: str = "") -> str:
    """Format an id that is equal for a planned configuration and its stored counterpart.

    The leaderboard does not record that a corpus was cut; the id then includes the sweep's name.
    """
    *names, corpus, dev, values, _ = setup
    parts = [*names, sorted(corpus.split("+")), dev, dict(values), sweep]
    return json.dumps(parts, sort_keys=True)


def setups_of_papers(
    rows: Sequence[PublishedRow], files: Sequence[PaperFile]
) -> Callable[[ConfigurationSetup], bool]:
    """Return a predicate: whether a configuration matches one of the rows or is in a file."""
    planned = {
        _format_setup_id(configuration.setup)
        for file in files
        for configuration in file.configurations
    }
    return lambda setup: matches_any_row(rows, setup) or _format_setup_id(setup) in planned


def paper_progress(
    rows: Sequence[PublishedRow], files: Sequence[PaperFile], ours: Sequence[LeaderboardRow]
) -> list[PaperProgress]:
    """Compute the progress of each table and figure of each paper, then of the whole paper.

    The files that serve all papers come last. `rows` are all published rows; those of recent
    papers, which have no files, are left out. `ours` has a row for every configuration.
    """
    rows = [row for row in rows if row.year is None]
    done = {
        (_format_setup_id(our_row.setup, sweep=sweep), seed)
        for our_row in ours
        if our_row.dev.source in PAPERS
        for sweep in ("", our_row.sweep)
        for seed in our_row.keys
    }
    progress, shared = [], [file for file in files if file.paper in OF_ALL_PAPERS]
    papers = dict.fromkeys((*(row.paper for row in rows), *(file.paper for file in files)))
    for paper in (paper for paper in papers if paper not in OF_ALL_PAPERS):
        own = {file.table: file for file in files if file.paper == paper}
        whole = own.pop(WHOLE, None)
        printed = group_by((row for row in rows if row.paper == paper), lambda row: row.table)

        def reading_order(table: str) -> tuple[bool, str, int]:
            name = table.rstrip("0123456789")
            return name != "table", name, int(table.removeprefix(name) or 0)

        tables = [
            _measure_table_progress(paper, table, printed.get(table, []), own, shared, ours, done)
            for table in sorted(printed.keys() | own.keys(), key=reading_order)
        ]
        progress += [*tables, *([_measure_whole_progress(tables, whole, done)] if whole else [])]
    return [*progress, *(_measure_whole_progress([], file, done) for file in shared)]


def _measure_table_progress(
    paper: str,
    table: str,
    rows: Sequence[PublishedRow],
    own: Mapping[str, PaperFile],
    shared: Sequence[PaperFile],
    ours: Sequence[LeaderboardRow],
    done: set[TrialId],
) -> PaperProgress:
    by_file = {name: [file.columns_filled(row) for row in rows] for name, file in own.items()}
    lines = [line_of_row(row, ours) for row in rows]
    filled = [
        set(line.ours).union(
            *(of_file[index] for of_file in by_file.values()),
            *(file.columns_filled(row) for file in shared),
        )
        for index, (row, line) in enumerate(zip(rows, lines, strict=True))
    ]
    filling = (own[name] for name, of_file in by_file.items() if any(of_file))
    file = own.get(table) or next(filling, None)
    left_out = Counter[LeftOut]()
    for row, columns in zip(rows, filled, strict=True):
        if missing := len(row.scores) - len(columns):
            left_out[explain_left_out(row)] += missing
    no_file = {"file": None, "trials": 0, "trials_done": 0}
    return PaperProgress(
        paper,
        table,
        rows=sum(map(bool, filled)),
        rows_filled=sum(bool(line.ours) for line in lines),
        cells=sum(map(len, filled)),
        cells_filled=sum(len(line.ours) for line in lines),
        left_out=dict(left_out),
        **(file.progress(done) if file else no_file),
    )


def _measure_whole_progress(
    tables: Sequence[PaperProgress], file: PaperFile, done: set[TrialId]
) -> PaperProgress:
    counts = ("rows", "rows_filled", "cells", "cells_filled")
    return PaperProgress(
        file.paper,
        WHOLE,
        **{name: sum(getattr(table, name) for table in tables) for name in counts},
        left_out=dict(sum((Counter(table.left_out) for table in tables), Counter())),
        **file.progress(done),
    )


def explain_left_out(row: PublishedRow) -> LeftOut:
    """Find why no file fills the numbers of a row."""
    if row.settings.get("stated") == "out of memory":
        return "out of memory"
    if row.configuration is not None:
        return "not tried"
    if row.method not in available_methods():
        return "system not run"
    if row.settings.keys() <= ABOUT_THE_RUN:  # its authors say nothing of it, or start elsewhere
        return "backbone not run"
    return "no hyperparameter"
