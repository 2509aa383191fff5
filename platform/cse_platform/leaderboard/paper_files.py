"""The sweep files of the papers' tables: which published numbers their trials fill, and progress.

`sweeps/papers/` has a file for each table and figure that trials can fill, `PAPER-TABLE.yaml`, and
one for each whole paper, `PAPER.yaml`; `sweeps/baselines.yaml` and `sweeps/released.yaml` fill rows
of all papers.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from pathlib import Path

from cse_methods.registry import available_methods
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, Tasks
from cse_platform.leaderboard.paper_tables import cost_columns, line_of_row
from cse_platform.leaderboard.published.rows import (
    ABOUT_THE_RUN,
    ENDINGS,
    PAPERS,
    PublishedRow,
    PublishedSplit,
    has_settings_of,
    matches_any_row,
)
from cse_platform.leaderboard.records import ConfigurationSetup, LeaderboardRow
from cse_platform.render.table import Column, Document, Table, group_by, to_csv, to_table
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.shipped import SHIPPED
from cse_platform.sweep.spec import SweepSpec

RELEASED, BASELINES = "released", "baselines"
"""Names used in place of a paper: for the file of released encoders, which are scored and not
trained, and for that of the systems that the papers cite as baselines."""
OF_ALL_PAPERS = (BASELINES, RELEASED)
WHOLE = "all"
"""The name used in place of a table for a paper's file of all its tables."""
_HOURS = re.compile(r"^# Total: .* = (\d+(?:\.\d+)?) GPU-hours", re.MULTILINE)
TrialId = tuple[str, int]
"""A configuration's id, made by `_format_setup_id`, and a seed."""


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
        asked = self.stage.evaluate.asked if self.stage.evaluate else Tasks()
        ranked = {f"{task}{ending}" for task in asked.ranking for ending in ENDINGS.values()}
        averages = {AVG_STS} if asked.sts else set()
        averages |= {AVG_TRANSFER} if asked.transfer else set()
        averages |= {f"{AVG_STS}{end}" for end in ENDINGS.values()} if asked.ranking else set()
        return {*asked.sts, *asked.transfer, *asked.long, *ranked, *averages}


@dataclass(frozen=True)
class PaperFile:
    """A sweep file of a paper, or one that fills rows of all papers."""

    path: Path
    configurations: tuple[PlannedConfiguration, ...]
    trials: tuple[TrialId, ...]
    """All trials that it runs; a trial of several stages is listed several times. If a stage
    confirms its best configurations, the first ones of its grid stand in for them.
    """
    gpu_hours: float | None
    """GPU-hours of all its trials, as stated at the top of the file."""

    @property
    def paper(self) -> str:
        return self.path.stem.partition("-")[0]

    @property
    def table(self) -> str:
        """`table4`, `figure3`, or `all`."""
        return self.path.stem.partition("-")[2] or WHOLE

    def columns_filled(self, row: PublishedRow) -> set[str]:
        """Find the columns of a published row that its trials give a number for."""
        fitting = (
            configuration
            for configuration in self.configurations
            if has_settings_of(row, configuration.setup)
        )
        return row.scores.keys() & set().union(
            *(configuration.columns(row.split) for configuration in fitting)
        )

    def hours_left(self, done: set[TrialId]) -> float | None:
        """Estimate the GPU-hours of the trials that are not done, assuming equal times."""
        if self.gpu_hours is None or not self.trials:
            return None
        return self.gpu_hours * len(set(self.trials) - done) / len(self.trials)


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
    left_out: dict[str, int]
    """Counts of the other printed numbers, by the reason."""
    trials: int
    """The number of distinct trials that the file runs."""
    trials_done: int
    gpu_hours_left: float | None
    """Estimated GPU-hours of the trials that are not done."""

    @property
    def is_printed(self) -> bool:
        """Whether it is one table whose printed numbers are known; figures and tables of settings
        have none.
        """
        return self.table != WHOLE and bool(self.cells or self.left_out)


def read_paper_files() -> tuple[PaperFile, ...]:
    """Read the sweep files: those of `sweeps/` in the working directory, else the shipped ones.

    Raises SweepFileError if one of the files is not a valid sweep.
    """
    here = Path("sweeps")
    folder = here if any(here.glob("papers/*.yaml")) else SHIPPED
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
    hours = _HOURS.search(path.read_text(encoding="utf-8"))
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
    total = float(hours[1]) if hours else None
    return PaperFile(path, tuple(configurations), tuple(trials), total)


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
    """Return a predicate: whether a configuration matches any of the rows or is in any of the
    files.
    """
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

    The files that serve all papers come last. `rows` are all published rows; `ours` has a row for
    every configuration.
    """
    done = {
        (_format_setup_id(our_row.setup, sweep=sweep), seed)
        for our_row in ours
        if our_row.dev.source in PAPERS
        for sweep in ("", our_row.sweep)
        for seed in our_row.seeds
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
    left_out = Counter[str]()
    for row, columns in zip(rows, filled, strict=True):
        if left := len(row.scores) - len(columns):
            left_out[why_left_out(row)] += left
    trials = set(file.trials) if file else set()
    return PaperProgress(
        paper,
        table,
        file=str(file.path) if file else None,
        rows=sum(map(bool, filled)),
        rows_filled=sum(bool(line.ours) for line in lines),
        cells=sum(map(len, filled)),
        cells_filled=sum(len(line.ours) for line in lines),
        left_out=dict(left_out),
        trials=len(trials),
        trials_done=len(trials & done),
        gpu_hours_left=file.hours_left(done) if file else None,
    )


def _measure_whole_progress(
    tables: Sequence[PaperProgress], file: PaperFile, done: set[TrialId]
) -> PaperProgress:
    counts = ("rows", "rows_filled", "cells", "cells_filled")
    return PaperProgress(
        file.paper,
        WHOLE,
        file=str(file.path),
        **{name: sum(getattr(table, name) for table in tables) for name in counts},
        left_out=dict(sum((Counter(table.left_out) for table in tables), Counter())),
        trials=len(set(file.trials)),
        trials_done=len(set(file.trials) & done),
        gpu_hours_left=file.hours_left(done),
    )


def why_left_out(row: PublishedRow) -> str:
    """Explain why no file fills the numbers of a row."""
    if row.settings.get("stated") == "out of memory":
        return "of a trial that runs out of memory"
    if row.configuration is not None:
        return "whose settings no file tries"
    if row.method not in available_methods():
        return "of systems that are not run here"
    if row.settings.keys() <= ABOUT_THE_RUN:  # its authors say nothing of it, or start elsewhere
        return "of systems that are not run here on that backbone"
    return "whose setting is no hyperparameter, such as a cut corpus"


def papers_layout(listed: Sequence[PaperProgress]) -> list[Table]:
    """Make a table for each paper: its tables and figures, then the file of the whole paper."""

    def count(name: str, filled: str, total: str) -> Column[PaperProgress]:
        def format_count(progress: PaperProgress) -> str | None:
            of = getattr(progress, total)
            return f"{getattr(progress, filled)} of {of}" if of else None

        return Column(name, format_count, align="right")

    papers = list(group_by(listed, lambda progress: progress.paper).values())
    left_out = [Counter[str]() for _ in papers]
    for counts, of_paper in zip(left_out, papers, strict=True):
        for progress in of_paper:
            counts.update(progress.left_out if progress.table != WHOLE else {})
    return [
        to_table(
            [
                Column("table", lambda progress: progress.table),
                Column("file", lambda progress: progress.file and Path(progress.file).name),
                count("rows", "rows_filled", "rows"),
                count("cells", "cells_filled", "cells"),
                count("trials", "trials_done", "trials"),
                Column(
                    "GPU-hours left",
                    lambda progress: progress.gpu_hours_left,
                    "{:.1f}".format,
                    align="right",
                ),
                Column(
                    "left out",
                    lambda progress: sum(progress.left_out.values()) or None,
                    align="right",
                ),
            ],
            group_by(of_paper, lambda progress: progress.table == WHOLE).values(),
            title=f"{of_paper[0].paper}: what our trials fill",
            notes=[
                *(
                    [f"Left out: {', '.join(f'{n} {why}' for why, n in out.items())}."]
                    if out
                    else ()
                ),
                *(PAPERS_NOTES if of_paper is papers[-1] else ()),
            ],
        )
        for of_paper, out in zip(papers, left_out, strict=True)
    ]


PAPERS_NOTES = (
    "cse-sweep papers/NAME runs a file. Cells are printed numbers that a file can fill.",
    "GPU-hours left: the file's total, times the share of its trials that are not complete.",
)


def papers_document(listed: Sequence[PaperProgress]) -> Document:
    """Make the document of papers; CSV has a line for each table, figure and whole paper."""
    names = [field.name for field in fields(PaperProgress) if field.name != "left_out"]
    columns = [Column[PaperProgress](name, attrgetter(name)) for name in names]
    left_out = Column[PaperProgress]("left_out", lambda progress: sum(progress.left_out.values()))
    return Document(
        lambda _wide: papers_layout(listed),
        lambda: to_csv([*columns, left_out], listed),
        lambda: listed,
    )
