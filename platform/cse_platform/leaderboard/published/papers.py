"""Sets our numbers beside those that papers print: gaps on the board, and whole tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.published.released import ReleasedEncoder
from cse_platform.leaderboard.filters import BestKey, best_key
from cse_platform.leaderboard.published.rows import (
    ABOUT_THE_RUN,
    BACKBONE,
    HARDWARE,
    SELECTED_ON,
    PublishedRow,
    PublishedSplit,
    published_rows,
    rows_of_table,
)
from cse_platform.leaderboard.records import (
    ConfigurationSetup,
    DevSets,
    Estimate,
    Gap,
    LeaderboardRow,
)
from cse_platform.leaderboard.statistics.intervals import gap_interval
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.tracking.history import COSTS, EPOCH_MINUTES, TRAIN_MINUTES


def find_gap(
    ours: LeaderboardRow,
    published: Sequence[PublishedRow],
    column: str | None,
    score: Estimate | None,
) -> Gap | None:
    """Compare our headline score with the closest published number.

    Of several rows, those of the method's own paper come first and reruns by other papers last;
    then the one that specifies most of the configuration, then the number that most sources print,
    then the first in `published`.

    Args:
        ours: our row.
        published: rows of any method, backbone and split; preferably before
            `merge_repeated_rows`, which drops what some sources state of the configuration.
        column: the headline: a test column; for None, which is dev, nothing is compared.
        score: our score in it; scores on built-in or imported data are not compared.

    Returns:
        None if our row has no such score, or no published row matches it.
    """
    if column is None or score is None or not is_comparable(score, ours.dev):
        return None
    rows = [
        row
        for row in published
        if row.split == "test"
        and column in row.scores.keys() - row.unstated
        and has_settings_of(row, ours.setup)
    ]
    return _find_closest_gap(column, score, rows) if rows else None


def _find_closest_gap(column: str, score: Estimate, rows: Sequence[PublishedRow]) -> Gap:
    """Return the difference to the row that is closest to ours, in the order of `find_gap`."""

    def repeated(value: float) -> int:
        return len(
            {source for row in rows if row.scores[column] == value for source in row.sources}
        )

    def credit(row: PublishedRow) -> tuple[bool, bool]:
        return row.own, not row.rerun

    def likeness(row: PublishedRow) -> tuple[bool, bool, int, int]:
        return *credit(row), len(row.configuration or ()), repeated(row.scores[column])

    closest = max(rows, key=likeness)
    value = closest.scores[column]
    # Name the first table that prints the number: an ablation may only repeat it.
    first = next(r for r in rows if credit(r) == credit(closest) and r.scores[column] == value)
    interval = score.interval
    return Gap(
        column=column,
        published=value,
        source=f"{first.paper} {first.table}",
        difference=score.mean - value,
        inside=None if interval is None else interval.low <= value <= interval.high,
    )


PAPERS_DEV = frozenset({"stsb", "sickr", "stsb+sickr"})
"""Dev sets that are accepted for papers that do not state which one they select on."""
PAPERS = frozenset({"hub", "senteval"})
"""Sources of the data that papers report on."""


def source_of(score: Estimate, dev: DevSets) -> str:
    """Return the source of a score's data; if the store has none, that of the dev sets."""
    return score.source or dev.source


def is_comparable(score: Estimate, dev: DevSets) -> bool:
    """Whether a score can be compared with a paper's: it is not on built-in or imported data."""
    return source_of(score, dev) in PAPERS


def has_settings_of(published: PublishedRow, ours: ConfigurationSetup) -> bool:
    """Whether our configuration has the method, the backbone and the settings of the row.

    A row that does not state its dev set matches configurations selected on STS-B or SICK-R; one
    that names no corpus matches any corpus, except for costs. Configurations trained on the texts
    of test sets never match.
    """
    if ours.released is not None:
        return _is_of_released(published, ours.released)
    stated, corpus = published.settings.get(SELECTED_ON), published.corpus
    return (
        published.configuration is not None
        and published.method == ours.method
        and ours.dev_search in (PAPERS_DEV if stated is None else {stated})
        and TRANSDUCTIVE not in ours.corpus
        and (corpus is None or set(corpus.split("+")) == set(ours.corpus.split("+")))
        and all(
            _has_wanted_value(name, wanted, {**ours.values, BACKBONE: ours.backbone})
            for name, wanted in {BACKBONE: published.backbone, **published.configuration}.items()
        )
    )


def _is_of_released(published: PublishedRow, released: ReleasedEncoder) -> bool:
    """Whether a row is what the encoder's authors report, not a rerun by the paper.

    A row with settings is of a variant, unless it states our hyperparameters for them.
    """
    is_variant = published.configuration is None and not published.settings.keys() <= ABOUT_THE_RUN
    return (
        (published.method, published.backbone) == (released.system, released.trained_from)
        and published.split == "test"
        and published.settings.get(SELECTED_ON) == released.selected_on
        and not (published.rerun or is_variant)
    )


def _has_wanted_value(name: str, wanted: Any, values: Mapping[str, Any]) -> bool:
    """Whether a setting has the value that a row requires, or avoids the one it excludes."""
    if name not in values:
        return False
    if isinstance(wanted, dict):
        return bool(values[name] != wanted["not"])
    return bool(values[name] == wanted)


Verdict = Literal["within noise", "above", "below", "noise not known"]


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

    backbone: str
    method: str
    """As the paper names it."""
    label: str
    """The settings, as the paper words them."""
    published: dict[str, float]
    """The paper's numbers by column: fractions, and costs in their own units."""
    published_std: dict[str, float]
    ours: dict[str, Estimate]
    """Our numbers by column; empty if no row of ours matches."""
    configuration: str | None = None
    """The hash of our configuration."""
    published_n: int | None = None
    """The number of seeds of the paper's numbers; None if the table does not say."""
    released: str | None = None
    """The released encoder, if our numbers are of one; None if they were trained here."""

    @property
    def gaps(self) -> dict[str, CellGap]:
        """The differences of the columns that have a number of ours."""
        gaps = {}
        for column, ours in self.ours.items():
            printed, std = self.published[column], self.published_std.get(column)
            values = list(ours.values.values())
            interval = gap_interval(values, printed=printed, std=std, n=self.published_n)
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
    notes: tuple[str, ...] = ()
    """The limits of the comparison."""


def paper_table(
    paper: str, table: str, ours: Sequence[LeaderboardRow], files: Iterable[str | Path] = ()
) -> PaperTable:
    """Lay out our rows as a table of a paper.

    Each line shows, of our configurations that match it and have a score in it, the best on dev;
    its seeds are those with scores there. For a line of dev scores, only rows selected on that dev
    set count. `table` is a name in the files, or a bare number. `ours` has a row for every
    configuration; scores on built-in or imported data are left out.

    Raises:
        PublishedError: if there is no such paper or table (lists those that exist), or a file is
            malformed.
    """
    rows = rows_of_table(paper, table, published_rows(files=files))
    columns = tuple(dict.fromkeys(column for row in rows for column in row.scores))
    backbones = list(dict.fromkeys(row.backbone for row in rows))
    candidates = {
        id(row): [our_row for our_row in ours if _select_comparable_scores(row, our_row)]
        for row in rows
    }
    lines = [
        line_of_row(row, candidates[id(row)])
        for row in sorted(rows, key=lambda row: backbones.index(row.backbone))
    ]
    notes = [
        *_note_columns(columns, rows),
        *_note_costs(rows[0].paper, columns, lines, candidates.values()),
        *_note_our_rows(columns, lines, candidates.values()),
    ]
    left_out = sum(
        any(
            len(_select_comparable_scores(row, our_row))
            < len(_select_matching_numbers(row, our_row))
            for row in rows
        )
        for our_row in ours
    )
    if left_out:
        notes.append(
            f"Scores of {left_out} of our rows left out: they are on built-in or imported data, "
            "and cannot be compared with a paper."
        )
    return PaperTable(rows[0].paper, rows[0].table, columns, tuple(lines), tuple(notes))


def matches_any_row(rows: Sequence[PublishedRow], ours: ConfigurationSetup) -> bool:
    """Whether a configuration of ours can have a score for any of these rows of a paper."""
    return any(
        (ours.is_scored or row.split != "test") and has_settings_of(row, ours) for row in rows
    )


def line_of_row(row: PublishedRow, ours: Iterable[LeaderboardRow]) -> PaperLine:
    """Build the line of a paper's row from our best configuration on dev that has a number."""

    def key(our_row: LeaderboardRow) -> tuple[bool, BestKey]:
        return our_row.released is None, best_key(
            seeds=min(estimate.n for estimate in _select_comparable_scores(row, our_row).values()),
            mean=our_row.dev_score.mean,
            configuration=our_row.configuration.hash,
        )

    best = max(
        (our_row for our_row in ours if _select_comparable_scores(row, our_row)),
        key=key,
        default=None,
    )
    return PaperLine(
        backbone=row.backbone,
        method=row.system,
        label=row.label,
        published=row.scores,
        published_std=row.std,
        ours={} if best is None else _select_comparable_scores(row, best),
        configuration=None if best is None else best.configuration.hash,
        published_n=row.seeds,
        released=best.backbone if best and best.released else None,
    )


def _select_comparable_scores(row: PublishedRow, ours: LeaderboardRow) -> dict[str, Estimate]:
    """Select our scores in the columns of a published row that can be compared with it."""
    numbers = _select_matching_numbers(row, ours)
    return {column: score for column, score in numbers.items() if is_comparable(score, ours.dev)}


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


def _note_columns(columns: Sequence[str], rows: Sequence[PublishedRow]) -> Iterator[str]:
    if unstated := {column for row in rows for column in row.unstated}:
        named = " and ".join(column for column in columns if column in unstated)
        yield f"The paper does not state how it measures {named}; ours are accuracies."


def _note_costs(
    paper: str,
    columns: Sequence[str],
    lines: Sequence[PaperLine],
    candidates: Iterable[Sequence[LeaderboardRow]],
) -> Iterator[str]:
    """Note the hardware of costs, and how they were measured; times depend on both."""
    costs = [column for column in columns if column in COSTS]
    if not costs:
        return
    theirs = HARDWARE.get(paper, "hardware that is not known")
    ours = {cost.identity for line in lines for name, cost in line.ours.items() if name in costs}
    hardware = "; ".join(sorted(filter(None, ours))) or "hardware that is not known"
    beside = f", ours of {hardware}: a difference is one of machines too"
    yield f"{' and '.join(costs)}: the paper's are of {theirs}{beside if ours else ''}."
    if ours and TRAIN_MINUTES in costs:
        yield (
            "Our minutes are those of optimiser steps, without evaluations and the start of a "
            "trial; the paper does not say what its minutes include."
        )
    if any(row.epoch_is_extrapolated for rows in candidates for row in rows):
        yield f"Some of our {EPOCH_MINUTES} are extrapolated, from trials of a part of an epoch."


def _note_our_rows(
    columns: Sequence[str],
    lines: Sequence[PaperLine],
    candidates: Iterable[Sequence[LeaderboardRow]],
) -> Iterator[str]:
    if any(len({row.dev.identity for row in ours}) > 1 for ours in candidates):
        yield (
            "Our row of some lines could be selected on several dev sets, and is the one with the "
            "highest mean on any; filter by identity to settle it."
        )
    for column in (column for column in columns if column not in COSTS):
        n = len({line.ours[column].identity for line in lines if column in line.ours})
        if n > 1:
            yield (
                f"Our scores of {column} are of {n} evaluation identities: filter by one to "
                "compare them."
            )
