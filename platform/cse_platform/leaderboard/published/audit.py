"""Compares each claim of the papers' tables with the noise that it must exceed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from cse_methods.published.tables import published_settings
from cse_methods.registry import available_methods
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, STS_TASKS, TRANSFER_TASKS
from cse_platform.leaderboard.filters import best_key
from cse_platform.leaderboard.published.papers import has_settings_of, is_comparable
from cse_platform.leaderboard.published.rows import PublishedRow, published_rows, rows_of_paper
from cse_platform.leaderboard.records import CLEAN_METRIC, LeaderboardRow
from cse_platform.leaderboard.statistics.power import (
    REACH,
    accuracy_difference_error,
    correlation_difference_error,
    expected_maximum,
    seeds_to_decide,
)
from cse_platform.leaderboard.statistics.results import Interval

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

Verdict = Literal["apart", "apart, if not selected", "not apart"]


@dataclass(frozen=True)
class SeedSpread:
    """The standard deviation of a score over seeds, and its source."""

    std: float
    source: str


CLEAN_AVERAGE = f"{AVG_STS}_{CLEAN_METRIC}"


@dataclass(frozen=True)
class CleanCheck:
    """Our own difference between a claim's two rows, on all rows and on clean rows of the test
    sets.
    """

    whole: float
    """On all rows, the papers' protocol."""
    clean: float | None
    """On clean rows; None if one of the two has no clean scores yet."""

    @property
    def turns(self) -> bool | None:
        """Whether the difference changes sign on clean rows; None if these have no scores."""
        return None if self.clean is None else (self.whole > 0) != (self.clean > 0)


@dataclass(frozen=True)
class Claim:
    """A table's claim: the best row of the paper's own method against the best of the others."""

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
    ours: CleanCheck | None = None
    """Our difference on all and on clean rows; None unless both rows were trained here."""

    @property
    def difference(self) -> float:
        """The score of the best minus that of its rival."""
        return self.best_score - self.rival_score

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the difference, over seeds and, if known, pairs."""
        reach = REACH * math.hypot(self.seeds_error, self.pairs_error or 0.0)
        return Interval(self.difference - reach, self.difference + reach, "seeds")

    @property
    def verdict(self) -> Verdict:
        """Whether the difference is significant, and whether only if the best was not selected on
        it.
        """
        low, high = self.interval.low, self.interval.high
        if low <= 0 <= high:
            return "not apart"
        return "apart, if not selected" if high > 0 and low <= self.selection else "apart"


@dataclass(frozen=True)
class Audit:
    """The claims of the papers' tables, in the order of the files."""

    claims: tuple[Claim, ...]


def audit_claims(
    paper: str | None = None,
    ours: Iterable[LeaderboardRow] = (),
    *,
    files: Iterable[str | Path] = (),
) -> Audit:
    """Audit each table of scores that has rows of the paper's own method and of others.

    The best row of either side is compared, on the mean of the STS tasks and of the transfer tasks.

    Args:
        paper: only the tables of this paper.
        ours: rows of a leaderboard. Their spreads over seeds are preferred to printed ones, and
            their clean scores show whether the difference depends on rows shared with dev sets.
        files: a lab's own published numbers.

    Raises:
        PublishedError: if there is no such paper, or a file is malformed.
    """
    everything = published_rows(files=files)
    rows = published_rows(files=files, ablations=False)
    rows = rows if paper is None else rows_of_paper(paper, rows)
    ours = list(ours)
    spreads = _collect_our_spreads(ours)
    tables: dict[tuple[str, str, str], list[PublishedRow]] = {}
    for row in rows:
        if row.split == "test":
            tables.setdefault((row.paper, row.table, row.backbone), []).append(row)
    claims = [
        _build_claim(column, in_table, everything, spreads, ours)
        for in_table in tables.values()
        for column in HEADLINES
        if len({row.own for row in in_table if column in row.scores}) == 2
    ]
    return Audit(tuple(claims))


def _build_claim(
    column: str,
    in_table: Sequence[PublishedRow],
    everything: Sequence[PublishedRow],
    known_spreads: Mapping[tuple[str, str, str], SeedSpread],
    ours: Sequence[LeaderboardRow],
) -> Claim:
    best, rival = (
        max(
            (row for row in in_table if row.own == own and column in row.scores),
            key=lambda row: row.scores[column],
        )
        for own in (True, False)
    )
    spreads = [_find_spread(row, column, everything, known_spreads) for row in (best, rival)]
    a, b = (spread.std for spread in spreads)
    settings = _count_settings(best, in_table)
    difference = best.scores[column] - rival.scores[column]
    pairs = _compute_pairs_error(best, rival, column)
    per_seed = math.hypot(a, b)
    return Claim(
        paper=best.paper,
        table=best.table,
        backbone=best.backbone,
        column=column,
        best=_name_row(best),
        rival=_name_row(rival),
        best_score=best.scores[column],
        rival_score=rival.scores[column],
        pairs_error=pairs,
        seeds_error=math.hypot(a / math.sqrt(best.seeds or 1), b / math.sqrt(rival.seeds or 1)),
        seeds_sources=(spreads[0].source, spreads[1].source),
        settings=settings,
        selection=a / math.sqrt(best.seeds or 1) * expected_maximum(settings),
        seeds_needed=seeds_to_decide(difference, seeds_error=per_seed),
        seeds_needed_elsewhere=seeds_to_decide(
            difference, seeds_error=per_seed, pairs_error=pairs or 0.0
        ),
        ours=_check_clean_rows(best, rival, ours) if column == AVG_STS else None,
    )


def _check_clean_rows(
    best: PublishedRow, rival: PublishedRow, ours: Sequence[LeaderboardRow]
) -> CleanCheck | None:
    """Compare our own best rows for two published ones on all rows and on clean rows.

    The two have equal dev sets, so that clean scores leave out the same rows. Pairs in which both
    have clean scores are preferred.
    """
    mine, theirs = (_find_our_rows(row, ours) for row in (best, rival))
    pairs = [(a, b) for a in mine for b in theirs if a.dev == b.dev]
    if not pairs:
        return None
    a, b = max(pairs, key=lambda pair: all(CLEAN_AVERAGE in row.scores for row in pair))
    whole, clean = (_subtract_means(a, b, column) for column in (AVG_STS, CLEAN_AVERAGE))
    assert whole is not None  # rows without one are not among them
    return CleanCheck(whole, clean)


def _find_our_rows(row: PublishedRow, ours: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """Find our rows on real data that match a published row, best on dev first."""
    found = [
        mine
        for mine in ours
        if AVG_STS in mine.scores
        and is_comparable(mine.scores[AVG_STS], mine.dev)
        and has_settings_of(row, mine.setup)
    ]
    return sorted(
        found,
        key=lambda mine: best_key(
            seeds=mine.n, mean=mine.dev_score.mean, configuration=mine.configuration.hash
        ),
        reverse=True,
    )


def _subtract_means(a: LeaderboardRow, b: LeaderboardRow, column: str) -> float | None:
    if column not in a.scores or column not in b.scores:
        return None
    return a.scores[column].mean - b.scores[column].mean


def _name_row(row: PublishedRow) -> str:
    return f"{row.system} ({row.label})" if row.label else row.system


def _compute_pairs_error(best: PublishedRow, rival: PublishedRow, column: str) -> float | None:
    """Compute the standard error of the difference of two averages over independent test sets."""
    tasks, agreement = HEADLINES[column], AGREEMENT[column]
    if not best.scores.keys() & rival.scores.keys() >= set(tasks):
        return None
    error = correlation_difference_error if column == AVG_STS else accuracy_difference_error
    errors = [
        error(best.scores[task], rival.scores[task], agreement, SIZES[task]) * GROUPING.get(task, 1)
        for task in tasks
    ]
    return math.hypot(*errors) / len(tasks)


def _collect_our_spreads(ours: Iterable[LeaderboardRow]) -> dict[tuple[str, str, str], SeedSpread]:
    """Collect the spreads of our rows by method, backbone and column, each from the most seeds."""
    spreads: dict[tuple[str, str, str], tuple[int, SeedSpread]] = {}
    for row in ours:
        for column in HEADLINES:
            score = row.scores.get(column)
            if score is None or score.std is None or not is_comparable(score, row.dev):
                continue
            key = row.method, row.backbone, column
            if key not in spreads or score.n > spreads[key][0]:
                spreads[key] = score.n, SeedSpread(score.std, f"ours, {score.n} seeds")
    return {key: spread for key, (_, spread) in spreads.items()}


def _find_spread(
    row: PublishedRow,
    column: str,
    everything: Sequence[PublishedRow],
    ours: Mapping[tuple[str, str, str], SeedSpread],
) -> SeedSpread:
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
        return SeedSpread(most.std[column], f"{most.paper} {most.table}, {most.seeds} seeds")
    typical = median(other.std[column] for other in printed)
    return SeedSpread(typical, f"median of {len(printed)} printed")


def _count_settings(best: PublishedRow, in_table: Sequence[PublishedRow]) -> int:
    """Count the settings that a paper is known to have tried, one hyperparameter at a time.

    These are its own rows in the table, and the other values of each hyperparameter that it
    searched.
    """
    variants = sum(row.own for row in in_table)
    columns = published_settings(best.method) if best.method in available_methods() else ()
    searched = [
        len(values) - 1
        for column in columns
        if column.backbone == best.backbone
        for values in column.searched.values()
        if isinstance(values, tuple)
    ]
    return variants + sum(searched)
