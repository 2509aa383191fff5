"""Compares each claim of the papers' tables with the noise that it must exceed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

from cse_methods.published.tables import published_settings
from cse_methods.registry import available_methods
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, STS_TASKS, TRANSFER_TASKS
from cse_platform.leaderboard.families import CLEAN_METRIC
from cse_platform.leaderboard.published.matching import has_settings_of, is_comparable
from cse_platform.leaderboard.published.rows import (
    OTHER_DATA,
    PublishedRow,
    published_rows,
    rows_of_paper,
)
from cse_platform.leaderboard.records import LeaderboardRow, dev_key
from cse_platform.leaderboard.statistics.compare import (
    REACH,
    accuracy_difference_error,
    correlation_difference_error,
    expected_maximum,
    seeds_to_decide,
)
from cse_platform.leaderboard.statistics.intervals import Interval
from cse_platform.values import group_by

HEADLINES = {AVG_STS: STS_TASKS, AVG_TRANSFER: TRANSFER_TASKS}
"""The averages that claims are about, and the tasks that each averages."""
AGREEMENT = {AVG_STS: 0.9, AVG_TRANSFER: 0.5}
"""Assumed correlation between two encoders that are not available: of their cosines on STS
(measured: 0.86 to 0.95 for one encoder before and after training), of their correctness on transfer
(a guess).
"""

SIZES = {
    **{"sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186},
    **{"stsb": 1379, "sickr": 4927},
    **{"mr": 10662, "cr": 3775, "subj": 10000, "mpqa": 10606, "sst2": 1821, "trec": 500},
    "mrpc": 1725,
}
"""Number of pairs or sentences of each test set."""

GROUPING = {
    **{"sts12": 1.99, "sts13": 1.51, "sts14": 1.23, "sts15": 1.05, "sts16": 1.24},
    **{"stsb": 1.09, "sickr": 1.28},
}
"""Factor by which the interval between two seeds widens if pairs that share sentences are resampled
together; measured in docs/statistics.md.
"""


Spread = tuple[float, str]
"""The standard deviation of a score over seeds, and its source: `ours, 5 seeds`, or that of a
printed one, `rankcse table2, 3 seeds`.
"""
Verdict = Literal["apart", "apart, if not selected", "not apart"]
YEAR = 2023
"""The year of the four papers."""
CLEAN_AVERAGE = f"{AVG_STS}_{CLEAN_METRIC}"


@dataclass(frozen=True)
class Claim:
    """A table's claim: the best row of the paper's own method against the best of the others.

    If a paper since the four prints no others, it is compared with the best of theirs.
    """

    paper: str
    table: str
    backbone: str
    column: str
    """The average that is compared."""
    best: str
    """The paper's best row, with its settings."""
    rival: str
    best_score: float
    rival_score: float
    pairs_error: float | None
    """The standard error of the difference over test pairs; None if tasks' scores are missing."""
    seeds_error: float
    """The standard error over seeds: of as many as the table states, else of one per side."""
    seeds_sources: tuple[str, str]
    """Sources of the spreads over seeds: for the best, and for its rival."""
    settings: int
    """Number of settings that the paper is known to have tried on this backbone; a lower bound."""
    selection: float
    """Expected excess of the best of that many settings if they differ only by seeds."""
    seeds_needed: int | None
    """Seeds per side that would decide the claim on these test sets; None for no difference."""
    seeds_needed_elsewhere: int | None
    """The same for other test sets of this kind; None if no number of seeds would decide it."""
    ours: float | None
    """Our own difference between the two rows, on all rows of the test sets, the papers' protocol;
    None unless both were trained here.
    """
    ours_clean: float | None
    """The same on clean rows; None if one of the two has no clean scores yet."""

    @property
    def difference(self) -> float:
        return self.best_score - self.rival_score

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference, over seeds and, if known, pairs."""
        reach = REACH * math.hypot(self.seeds_error, self.pairs_error or 0.0)
        return Interval(self.difference - reach, self.difference + reach, "seeds")

    @property
    def ours_turns(self) -> bool | None:
        """Whether our difference changes sign on clean rows; None without scores on these."""
        if self.ours is None or self.ours_clean is None:
            return None
        return (self.ours > 0) != (self.ours_clean > 0)

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is significant, and whether only if the best was not selected on
        it.
        """
        low, high = self.interval.low, self.interval.high
        if low <= 0 <= high:
            return "not apart"
        return "apart, if not selected" if high > 0 and low <= self.selection else "apart"


def audit_claims(
    paper: str | None = None,
    ours: Iterable[LeaderboardRow] = (),
    *,
    files: Iterable[str | Path] = (),
) -> list[Claim]:
    """Audit each table of scores that has rows of the paper's own method.

    Its best row is compared with the best of the others in the table, or if it has none and is not
    older, in the tables of the four papers: on the mean of the STS tasks and of the transfer tasks.
    Rows that are trained on other data than unlabelled text are left out.

    Args:
        paper: only the tables of this paper.
        ours: rows of a leaderboard. Their spreads over seeds are preferred to printed ones, and
            their clean scores show whether the difference depends on rows shared with dev sets.
        files: a lab's own published numbers.
    """
    everything = published_rows(files=files)
    rows = published_rows(files=files, ablations=False)
    rows = rows if paper is None else rows_of_paper(paper, rows)
    ours = list(ours)
    spreads: dict[tuple[str, str, str], Spread] = {}  # ours, each from the most seeds
    for column in HEADLINES:
        scored = [(row.scores[column], row) for row in ours if column in row.scores]
        for score, row in sorted(scored, key=lambda pair: pair[0].n, reverse=True):
            if score.std is not None and is_comparable(score, row.dev):
                spread = score.std, f"ours, {score.n} seeds"
                spreads.setdefault((row.method, row.backbone, column), spread)
    tested = (row for row in rows if row.split == "test" and OTHER_DATA.isdisjoint(row.apart))
    tables = group_by(tested, lambda row: (row.paper, row.table, row.backbone))
    return [
        _build_claim(column, own, others, everything, spreads, ours)
        for in_table in tables.values()
        for column in HEADLINES
        if (own := [row for row in in_table if row.is_own and column in row.scores])
        and (others := _find_others(column, in_table))
    ]


def explain_no_claim(paper: str, *, files: Iterable[str | Path] = ()) -> str:
    """Say why `audit_claims` finds no claim of a paper that has rows."""
    rows = rows_of_paper(paper, published_rows(files=files, ablations=False))
    name = rows[0].paper
    reason = f"no table has {' or '.join(HEADLINES)} of {name} and of another method to compare"
    if not any(row.is_own for row in rows):
        reason = f"none of its rows is of a method named {name}"
    return f"no claim of {name}: {reason}"


def _find_others(column: str, in_table: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Find the rows that a table's own ones are compared with."""
    others = [row for row in in_table if not row.is_own]
    if not others and (in_table[0].year or 0) >= YEAR:
        shipped = published_rows(backbone=in_table[0].backbone, ablations=False)
        whole = [row for row in shipped if row.scores.keys() >= set(HEADLINES[column])]
        others = [row for row in whole if row.year is None and row.split == "test"]
    return [row for row in others if column in row.scores]


def _build_claim(
    column: str,
    own: Sequence[PublishedRow],
    others: Sequence[PublishedRow],
    everything: Sequence[PublishedRow],
    known_spreads: Mapping[tuple[str, str, str], Spread],
    ours: Sequence[LeaderboardRow],
) -> Claim:
    best, rival = (max(rows, key=lambda row: row.scores[column]) for rows in (own, others))
    (a, source), (b, rival_source) = (
        _find_spread(row, column, everything, known_spreads) for row in (best, rival)
    )
    # One hyperparameter at a time: its own rows in the table, and the other values of each that it
    # searched.
    columns = published_settings(best.method) if best.method in available_methods() else ()
    settings = len(own) + sum(
        len(values) - 1
        for of_backbone in columns
        if of_backbone.backbone == best.backbone
        for values in of_backbone.searched.values()
        if isinstance(values, tuple)
    )
    difference = best.scores[column] - rival.scores[column]
    pairs = _compute_pairs_error(best, rival, column)
    names = [f"{row.system} ({row.label})" if row.label else row.system for row in (best, rival)]
    if rival.paper != best.paper:
        names[1] += f", {rival.sources[0]}"
    per_seed = math.hypot(a, b)
    share = (a / per_seed) ** 2 if per_seed else 0.5
    decide = partial(seeds_to_decide, difference, seeds_error=per_seed, share=share)
    whole, clean = _compare_ours(best, rival, ours) if column == AVG_STS else (None, None)
    return Claim(
        paper=best.paper,
        table=best.table,
        backbone=best.backbone,
        column=column,
        best=names[0],
        rival=names[1],
        best_score=best.scores[column],
        rival_score=rival.scores[column],
        pairs_error=pairs,
        seeds_error=math.hypot(a / math.sqrt(best.seeds or 1), b / math.sqrt(rival.seeds or 1)),
        seeds_sources=(source, rival_source),
        settings=settings,
        selection=a / math.sqrt(best.seeds or 1) * expected_maximum(settings),
        seeds_needed=decide(),
        seeds_needed_elsewhere=decide(pairs_error=pairs or 0.0),
        ours=whole,
        ours_clean=clean,
    )


def _compute_pairs_error(best: PublishedRow, rival: PublishedRow, column: str) -> float | None:
    """Compute the standard error over test pairs of the difference of two averages, `column`.

    None if the scores of some tasks are not printed.
    """
    tasks = HEADLINES[column]
    if not best.scores.keys() & rival.scores.keys() >= set(tasks):
        return None
    compute = correlation_difference_error if column == AVG_STS else accuracy_difference_error
    errors = [
        compute(best.scores[task], rival.scores[task], AGREEMENT[column], SIZES[task])
        * GROUPING.get(task, 1)
        for task in tasks
    ]
    return math.hypot(*errors) / len(tasks)  # the test sets are independent


def _compare_ours(
    best: PublishedRow, rival: PublishedRow, ours: Sequence[LeaderboardRow]
) -> tuple[float | None, float | None]:
    """Compare our own best rows for two published ones, on all rows and on clean rows.

    The two have equal dev sets, so that clean scores leave out the same rows. Pairs in which both
    have clean scores are preferred.
    """
    scored = [row for row in ours if AVG_STS in row.scores]
    real = [row for row in scored if is_comparable(row.scores[AVG_STS], row.dev)]
    ranked = sorted(real, key=dev_key, reverse=True)
    mine, theirs = (
        [row for row in ranked if has_settings_of(printed, row.setup)] for printed in (best, rival)
    )
    pairs = [(a, b) for a in mine for b in theirs if a.dev == b.dev]
    if not pairs:
        return None, None
    a, b = max(pairs, key=lambda pair: all(CLEAN_AVERAGE in row.scores for row in pair))
    whole = a.scores[AVG_STS].mean - b.scores[AVG_STS].mean
    if CLEAN_AVERAGE not in a.scores or CLEAN_AVERAGE not in b.scores:
        return whole, None
    return whole, a.scores[CLEAN_AVERAGE].mean - b.scores[CLEAN_AVERAGE].mean


def _find_spread(
    row: PublishedRow,
    column: str,
    everything: Sequence[PublishedRow],
    ours: Mapping[tuple[str, str, str], Spread],
) -> Spread:
    """Find the spread of a row's score over seeds: ours, else a printed one, else their median."""
    if known := ours.get((row.method, row.backbone, column)):
        return known
    printed = [other for other in everything if column in other.std and other.seeds]
    same = [
        other for other in printed if (other.method, other.backbone) == (row.method, row.backbone)
    ]
    if same:
        mine = row.settings.items()
        most = max(same, key=lambda other: (len(other.settings.items() & mine), other.seeds or 0))
        return most.std[column], f"{most.paper} {most.table}, {most.seeds} seeds"
    unused = ", its own std has no seeds=N in its settings" * (column in row.std)
    return (
        median(other.std[column] for other in printed),
        f"median of {len(printed)} printed{unused}",
    )
