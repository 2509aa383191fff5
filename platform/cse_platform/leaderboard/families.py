"""The families of tasks whose scores are shown together, and the columns of each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.errors import NotFoundError

FamilyName = str
"""The name of a family of `FAMILIES`, or a benchmark such as `benchmark:MTEB(eng, v2)`."""
OWN, MTEB, BENCHMARK = "own", "mteb", "benchmark:"
"""A lab's own test sets, and tasks of mteb: their names are known only from stored scores. Also the
beginning of a benchmark's name.
"""
RANKING_METRICS = ("kcc", "ndcg")
CLEAN_METRIC = "clean"
"""Spearman's correlation over the rows of a test set that are in no dev set and no earlier task."""
COLUMN_METRICS = (*RANKING_METRICS, CLEAN_METRIC)
"""The metrics that columns are named after: `stsb_kcc`, `stsb_clean`."""


@dataclass(frozen=True)
class BoardFamily:
    """Tasks whose scores are shown together."""

    name: FamilyName
    columns: tuple[str, ...]
    """Task ids in the papers' order; for ranking and clean scores, task and metric: `stsb_kcc`."""
    averages: tuple[str, ...]
    """Those of `columns` that are means over others; the first is the family's headline."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns that the mean of a benchmark is over."""

    def columns_of(self, average: str) -> tuple[str, ...]:
        """Return the columns that an average is computed over, which have its metric."""
        if average in self.members:
            return self.members[average]
        suffix = average.removeprefix(AVG_STS) if self.name == "ranking" else ""
        return tuple(c for c in self.columns if c not in self.averages and c.endswith(suffix))


BOARD_FAMILIES = {
    family.name: family
    for family in (
        BoardFamily("sts", (*STS_TASKS, AVG_STS), (AVG_STS,)),
        BoardFamily("transfer", (*TRANSFER_TASKS, AVG_TRANSFER), (AVG_TRANSFER,)),
        BoardFamily(
            "ranking",
            tuple(
                f"{task}_{metric}" for metric in RANKING_METRICS for task in (*STS_TASKS, AVG_STS)
            ),
            tuple(f"{AVG_STS}_{metric}" for metric in RANKING_METRICS),
        ),
        BoardFamily("long", LONG_TASKS, ()),
        BoardFamily(
            "clean",
            tuple(f"{task}_{CLEAN_METRIC}" for task in (*STS_TASKS, AVG_STS)),
            (f"{AVG_STS}_{CLEAN_METRIC}",),
        ),
    )
}
FAMILIES = (*BOARD_FAMILIES, MTEB, OWN)
"""The names of all families but benchmarks."""
SCORE_COLUMNS = {c: None for family in BOARD_FAMILIES.values() for c in family.columns}
"""The columns of all families, in their order."""


def is_of_mteb(column: str) -> bool:
    """Whether a column is a task of mteb, or the mean of a benchmark."""
    return column.startswith((f"{MTEB}:", BENCHMARK))


def is_own(column: str) -> bool:
    """Whether a column is a lab's own test set: it is not the name of a known column."""
    return column not in SCORE_COLUMNS and not is_of_mteb(column)


def task_of(column: str) -> str:
    """Return the task of a column: `stsb` for `stsb` and for `stsb_clean`."""
    task, _, metric = column.rpartition("_")
    return task if metric in COLUMN_METRICS and column in SCORE_COLUMNS else column


def is_clean(column: str) -> bool:
    """Whether a column holds clean scores."""
    return column in BOARD_FAMILIES[CLEAN_METRIC].columns


def families_beside(name: FamilyName) -> tuple[FamilyName, ...]:
    """Return the families to read together: clean scores come with those on all rows, and the
    tasks of a benchmark with all of mteb.
    """
    if name.startswith(BENCHMARK):
        return (MTEB,)
    return (name, "sts") if name == "clean" else (name,)


class Scored(Protocol):
    """A row, as far as families are concerned."""

    @property
    def scores(self) -> Mapping[str, object]:
        """The test scores, by column."""

    @property
    def benchmarks(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that the mean of each benchmark is over."""


def family_named(name: str, rows: Iterable[Scored] = ()) -> BoardFamily:
    """Find the family of that name; `own`, `mteb` and benchmarks have the columns of the rows.

    These are in the order in which they were scored, each benchmark after its tasks; own sets with
    scores of more rows come first. Raises NotFoundError if there is no such family.
    """
    if name in BOARD_FAMILIES:
        return BOARD_FAMILIES[name]
    rows = list(rows)
    scored = dict.fromkeys(column for row in rows for column in row.scores)
    if name == OWN:
        rows_of = Counter(column for row in rows for column in row.scores if is_own(column))
        return BoardFamily(OWN, tuple(column for column, _ in rows_of.most_common()), ())
    if name != MTEB and not name.startswith(BENCHMARK):
        raise NotFoundError(
            f"there are no tasks {name!r}; expected {', '.join(FAMILIES)}, or a benchmark such as "
            "'benchmark:MTEB(eng, v2)'"
        )
    members = {
        average: over
        for row in rows
        for average, over in row.benchmarks.items()
        if name in (MTEB, average)
    }
    columns = [column for average, over in members.items() for column in (*over, average)]
    columns += filter(is_of_mteb, scored) if name == MTEB else ()
    return BoardFamily(name, tuple(dict.fromkeys(columns)), tuple(members), members)


def family_of(rows: Sequence[Scored]) -> FamilyName:
    """Find the first family that any row has scores of; `sts` if there is none."""
    for name in FAMILIES:
        columns = family_named(name, rows).columns
        if any(column in row.scores for row in rows for column in columns):
            return name
    return "sts"
