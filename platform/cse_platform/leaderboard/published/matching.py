"""Match our rows with those of the papers, and compare their scores."""

from collections import defaultdict
from collections.abc import Sequence

from cse_methods.data.corpus_spec import TRANSDUCTIVE
from cse_methods.published.released import ReleasedEncoder
from cse_platform.leaderboard.published.rows import (
    ABOUT_THE_RUN,
    BACKBONE,
    NOT,
    SELECTED_ON,
    PublishedRow,
)
from cse_platform.leaderboard.records import (
    ConfigurationSetup,
    DevSets,
    Estimate,
    Gap,
    LeaderboardRow,
)

PAPERS_DEV = frozenset({"stsb", "sickr", "stsb+sickr"})
"""Dev sets that are accepted for papers that do not state which one they select on."""
PAPERS = frozenset({"hub", "senteval"})
"""Sources of the data that papers report on."""


def find_gap(
    ours: LeaderboardRow,
    published: Sequence[PublishedRow],
    column: str | None,
    score: Estimate | None,
) -> Gap | None:
    """Compare our score in the headline, a test column, with the closest published number.

    Of several rows, those of the method's own paper come first and reruns by other papers last;
    then the one that specifies most of the configuration, then the number that most sources print,
    then the first in `published`. These are best not merged yet, because `merge_repeated_rows`
    drops what some sources state of the configuration.

    None for dev, for scores on built-in or imported data, and if no published row matches ours.
    """
    if column is None or score is None or not is_comparable(score, ours.dev):
        return None
    setup = ours.setup
    rows = [
        row
        for row in published
        if row.split == "test"
        and column in row.scores.keys() - row.unstated
        and has_settings_of(row, setup)
    ]
    if not rows:
        return None
    sources = defaultdict[float, set[str]](set)
    for row in rows:
        sources[row.scores[column]].update(row.sources)

    def likeness(row: PublishedRow) -> tuple[bool, bool, int, int]:
        stated, printed = len(row.configuration or ()), len(sources[row.scores[column]])
        return row.is_own, not row.rerun, stated, printed

    closest = max(rows, key=likeness)
    value, interval = closest.scores[column], score.interval
    # Name the first table that prints the number: an ablation may only repeat it.
    alike = (row for row in rows if likeness(row)[:2] == likeness(closest)[:2])
    first = next(row for row in alike if row.scores[column] == value)
    return Gap(
        published=value,
        source=f"{first.paper} {first.table}",
        difference=score.mean - value,
        inside=None if interval is None else interval.low <= value <= interval.high,
    )


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
    if published.configuration is None or published.method != ours.method:
        return False
    stated, corpus = published.settings.get(SELECTED_ON), published.corpus
    values = {**ours.values, BACKBONE: ours.backbone}
    wanted = {BACKBONE: published.backbone, **published.configuration}
    return (
        ours.dev_search in (PAPERS_DEV if stated is None else {stated})
        and TRANSDUCTIVE not in ours.corpus
        and (corpus is None or set(corpus.split("+")) == set(ours.corpus.split("+")))
        and all(
            name in values
            and (values[name] != value[NOT] if isinstance(value, dict) else values[name] == value)
            for name, value in wanted.items()
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


def matches_any_row(rows: Sequence[PublishedRow], ours: ConfigurationSetup) -> bool:
    """Whether a configuration of ours can have a score for any of these rows of a paper."""
    return any(
        (ours.is_scored or row.split != "test") and has_settings_of(row, ours) for row in rows
    )
