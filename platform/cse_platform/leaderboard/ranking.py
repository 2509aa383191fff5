"""Rank intervals of rows, the scores by seed and example that they are computed from, and the order
of rows by a column.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_methods.data.shared_sentences import Groups, known_groups, number_by_appearance
from cse_methods.tasks import SENTENCE_GROUPS, Statistic
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.families import (
    SCORE_COLUMNS,
    BoardFamily,
    is_clean,
    is_of_mteb,
    task_of,
)
from cse_platform.leaderboard.published.matching import find_gap
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import DEV, Estimate, LeaderboardRow, order_by_dev
from cse_platform.leaderboard.seed_scores import read_evaluations
from cse_platform.leaderboard.statistics.intervals import (
    RESAMPLES,
    Contender,
    RankInterval,
    Sampled,
    joint_ranks,
    percentile_interval,
    sample,
)
from cse_platform.leaderboard.statistics.resampling import Floats, Progress
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    EvaluationRecord,
    ExampleSetRecord,
    ExampleValuesRecord,
    ScoreRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.tracking.history import COSTS
from cse_platform.tracking.packing import unpack_gold, unpack_values
from cse_platform.values import group_by

ScoreKey = tuple[str, int, str, str]
"""Configuration's hash, seed, column and identity."""

Rows = NDArray[np.intp] | slice
"""Indices of the examples that a score is computed over."""


def build_contenders(
    session: Session,
    rows: Mapping[str, LeaderboardRow],
    tasks: Sequence[str],
    *,
    scored_on: Sequence[str] = (),
) -> list[Contender]:
    """Build contenders, with the values by example of the tasks for which every seed has them.

    `tasks` are columns of one family, without averages. Each row must have a score on each of them,
    and a seed that has all of these. `scored_on` has further columns that the seeds must have.
    """
    examples, gold, groups = _read_examples(session, list(rows.values()), tasks)
    built = []
    for name, row in rows.items():
        seeds = common_seeds(row, [*tasks, *scored_on])
        name_of = row.configuration.hash
        keys = {
            task: [(name_of, seed, task, row.scores[task].identity) for seed in seeds]
            for task in tasks
        }
        paired = {task: ks for task, ks in keys.items() if all(key in examples for key in ks)}
        data = {task: examples[ks[0]].data for task, ks in paired.items()}
        built.append(
            Contender(
                name,
                {task: [row.scores[task].values[seed] for seed in seeds] for task in tasks},
                {task: np.stack([examples[k].values for k in ks]) for task, ks in paired.items()},
                {task: gold[name] for task, name in data.items() if name in gold},
                {task: groups[name] for task, name in data.items() if name in groups},
                (row.method, row.backbone, tuple(seeds)),
                {task: examples[ks[0]].statistic for task, ks in paired.items()},
            )
        )
    return built


def common_seeds(row: LeaderboardRow, tasks: Sequence[str]) -> list[int]:
    """Find the seeds that count in the score of every one of these tasks."""
    counted = [row.scores[task].values.keys() for task in tasks]
    return sorted(set(row.keys).intersection(*counted))


class _Examples(NamedTuple):
    """The values that a score is computed from, the id of their examples, and the statistic."""

    data: str
    values: NDArray[np.float32]
    statistic: Statistic


def _read_examples(
    session: Session, rows: Sequence[LeaderboardRow], tasks: Sequence[str]
) -> tuple[dict[ScoreKey, _Examples], dict[str, NDArray[Any]], dict[str, Groups]]:
    """Read values by example of rows on tasks.

    Returns the values by the key of the score; gold scores by the id of the examples; and groups by
    id where they are known. A clean score is over a subset of the pairs of the cosines that its
    identity refers to, so its id includes that identity.
    """
    hashes = sorted({row.configuration.hash for row in rows})
    sources = _find_sources(session, rows, tasks)
    wanted: dict[tuple[str, str, str], dict[tuple[str, str], None]] = defaultdict(dict)
    for row in rows:
        for column in tasks:
            identity = row.scores[column].identity
            source = row.configuration.hash, task_of(column), sources[identity][0]
            wanted[source][column, identity] = None
    examples: dict[ScoreKey, _Examples] = {}
    subsets: dict[str, tuple[str, Rows]] = {}
    stored = ExampleValuesRecord
    query = (
        select(
            *(ConfigurationRecord.hash, TrialRecord.seed, stored.task, stored.identity),
            *(stored.data_sha256, stored.statistic, stored.packed),
        )
        .select_from(TrialRecord)
        .join(TrialRecord.examples)
        .join(TrialRecord.configuration)
        .where(stored.task.in_(sorted(set(map(task_of, tasks)))))
        .order_by(stored.measured)
    )
    for batch in in_batches(hashes):
        lines = session.execute(query.where(ConfigurationRecord.hash.in_(batch)))
        for configuration, seed, task, identity, data, statistic, packed in lines:
            for column, own in wanted.get((configuration, task, identity), ()):
                kept = sources[own][1]
                name = f"{data} {own}" if is_clean(column) else data
                if statistic != "mean":
                    subsets[name] = data, kept
                values = unpack_values(packed)[kept]
                key = configuration, seed, column, own
                examples[key] = _Examples(name, values, cast("Statistic", statistic))
    sets = select(ExampleSetRecord.data_sha256, ExampleSetRecord.gold)
    sets = sets.where(ExampleSetRecord.data_sha256.in_(sorted({d for d, _ in subsets.values()})))
    gold = {data: unpack_gold(packed or b"") for data, packed in session.execute(sets)}
    ranked = {each.data for each in examples.values() if each.statistic == "spearman"}
    correlated = {subsets[name][0] for name in ranked}
    groups = _read_groups(session, {data: gold[data] for data in correlated}, hashes)
    return (
        examples,
        {name: gold[data][kept] for name, (data, kept) in subsets.items()},
        {
            name: number_by_appearance(groups[data][kept])
            for name, (data, kept) in subsets.items()
            if data in groups
        },
    )


def _find_sources(
    session: Session, rows: Sequence[LeaderboardRow], tasks: Sequence[str]
) -> dict[str, tuple[str, Rows]]:
    """Find the values that each score is computed from, and which of their rows, by identity.

    These are all rows of those with the same identity, but for clean scores.
    """
    scores = {(row.scores[column].identity, is_clean(column)) for row in rows for column in tasks}
    sources: dict[str, tuple[str, Rows]] = {name: (name, slice(None)) for name, _ in scores}
    if clean := [identity for identity, cleaned in scores if cleaned]:
        from cse_methods.evaluation.identity import rows_of_clean

        for identity, evaluation in read_evaluations(session, clean).items():
            sources[identity] = rows_of_clean(evaluation.settings) or sources[identity]
    return sources


def _read_groups(
    session: Session, gold: Mapping[str, Floats], configurations: Sequence[str]
) -> dict[str, Groups]:
    """Find the groups of the pairs of each set: from the package's table, or from evaluations.

    The table has no groups of a lab's own sets and of unknown copies. Evaluations of these
    configurations, by their hashes, record them; sets without groups are left out.
    """
    groups = {data: known for data, g in gold.items() if (known := known_groups(g)) is not None}
    if groups.keys() == gold.keys():
        return groups
    from cse_methods.evaluation.identity import groups_of_settings

    for batch in in_batches(configurations):
        identities = (
            select(ScoreRecord.identity)
            .select_from(TrialRecord)
            .join(TrialRecord.scores)
            .join(TrialRecord.configuration)
            .where(ConfigurationRecord.hash.in_(batch), ScoreRecord.metric == SENTENCE_GROUPS)
        )
        query = select(EvaluationRecord.settings).where(EvaluationRecord.identity.in_(identities))
        for settings in session.scalars(query):
            if (data := settings["data_sha256"]) in gold:
                groups.setdefault(data, groups_of_settings(settings))
        if groups.keys() == gold.keys():
            break
    return groups


_SEED = 0


def rank_rows(
    session: Session,
    rows: Sequence[LeaderboardRow],
    family: BoardFamily,
    published: Sequence[PublishedRow],
    *,
    resampled: bool = True,
    progress: Progress | None = None,
) -> list[LeaderboardRow]:
    """Return the rows with what depends on the whole board, or on papers.

    These are the headline, which is the family's first average that any row has, or else the task
    that most rows have, and None for dev; and the gap to a published number. If `resampled`, also
    the rank, and the intervals of scores of a single seed.
    """
    rows_with = Counter(column for row in rows for column in row.scores)
    most = max(family.columns, key=rows_with.__getitem__, default=DEV)
    headline = next((name for name in (*family.averages, most) if rows_with[name]), None)
    sampled: list[Sampled | None] = [None] * len(rows)
    ranks: list[RankInterval | None] = [None] * len(rows)
    comparable: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows if resampled else ()):
        if (score := row.score_on(headline)) is not None:
            comparable[score.identity].append(index)
    for indices in comparable.values():
        group = [rows[index] for index in indices]
        drawn = _sample_rows(session, group, family, headline, progress)
        scored = [
            (
                list(score.values.values()),
                None if draws is None else np.mean(list(draws.over_examples.values()), axis=0),
            )
            for row, draws in zip(group, drawn, strict=True)
            if (score := row.score_on(headline)) is not None
        ]
        ranked = joint_ranks(scored, resamples=RESAMPLES["board"], seed=_SEED)
        for index, draws, rank in zip(indices, drawn, ranked, strict=True):
            sampled[index], ranks[index] = draws, rank
    finished = []
    for row, draws, rank in zip(rows, sampled, ranks, strict=True):
        scores = _add_intervals(session, row, headline, draws) if resampled else row.scores
        gap = find_gap(row, published, headline, scores.get(headline or ""))
        finished.append(replace(row, headline=headline, rank=rank, scores=scores, gap=gap))
    return finished


def _sample_rows(
    session: Session,
    rows: Sequence[LeaderboardRow],
    family: BoardFamily,
    headline: str | None,
    progress: Progress | None,
) -> list[Sampled | None]:
    """Resample the headline of each row over examples; None for rows that lack a task of it."""
    if headline is None:
        return [None] * len(rows)
    tasks = family.columns_of(headline) if headline in family.averages else (headline,)
    whole = {}
    for n, row in enumerate(rows):
        seeds = row.scores[headline].values.keys()
        if all(task in row.scores and seeds <= row.scores[task].values.keys() for task in tasks):
            whole[str(n)] = row
    compared = build_contenders(session, whole, tasks, scored_on=[headline])
    paired = [contender for contender in compared if contender.values.keys() == set(tasks)]
    drawn = sample(paired, tasks, resamples=RESAMPLES["board"], seed=_SEED, progress=progress)
    by_name = {draws.contender.name: draws for draws in drawn}
    return [by_name.get(str(n)) for n in range(len(rows))]


def _add_intervals(
    session: Session, row: LeaderboardRow, headline: str | None, sampled: Sampled | None
) -> dict[str, Estimate]:
    """Add intervals over examples to scores that have a single seed and stored values."""
    draws = {} if sampled is None else dict(sampled.over_examples)
    if sampled is not None and headline is not None:
        draws[headline] = np.mean(list(sampled.over_examples.values()), axis=0)
    single = [column for column, score in row.scores.items() if score.n == 1]
    left = (column for column in single if column not in draws)
    for columns in group_by(left, lambda column: tuple(row.scores[column].values)).values():
        [contender] = build_contenders(session, {"": row}, columns)
        if known := [column for column in columns if column in contender.values]:
            [drawn] = sample([contender], known, resamples=RESAMPLES["board"], seed=_SEED)
            draws |= drawn.over_examples
    return {
        column: replace(score, interval=percentile_interval(draws[column]))
        if column in single and column in draws
        else score
        for column, score in row.scores.items()
    }


def _read_mean(column: str, row: LeaderboardRow) -> float | None:
    return None if (score := row.scores.get(column)) is None else score.mean


ORDERS: dict[str, Callable[[LeaderboardRow], Any]] = {
    "method": attrgetter("shown_method"),
    "backbone": attrgetter("shown_backbone"),
    "sweep": attrgetter("sweep"),
    "configuration": attrgetter("configuration.hash"),
    "corpus": attrgetter("corpus"),
    "n": attrgetter("n"),
    "dev_set": attrgetter("dev.search", "dev.source"),
    DEV: attrgetter("dev_score.mean"),
    "dev_std": attrgetter("dev_score.std"),
    "untrained": attrgetter("dev_untrained"),
    "trials": attrgetter("trials"),
    "rank": lambda row: row.rank and (row.rank.best, row.rank.worst),
    "gap": lambda row: row.gap and row.gap.difference,
    "gpu_hours": attrgetter("gpu_hours"),
    "wall_seconds": attrgetter("wall_seconds"),
    **{cost: methodcaller("cost", cost) for cost in COSTS},
    "finished": attrgetter("finished"),
    "machines": attrgetter("machines"),
    "tags": attrgetter("tags"),
    "std": lambda row: row.ranked_score and row.ranked_score.std,
    "best": lambda row: row.ranked_score and row.ranked_score.best,
    **{column: partial(_read_mean, column) for column in SCORE_COLUMNS},
}
"""The columns that rows can always be sorted by, with what reads their values: None or an empty
list for a row without one. `std` and `best` refer to the score that ranks a row.
"""
RISING = {
    *("method", "backbone", "sweep", "configuration", "corpus"),
    *("dev_set", "rank", "machines", "tags"),
}
"""The columns that sort from low to high; others sort from high to low."""


def sort_rows(rows: Sequence[LeaderboardRow], column: str | None = None) -> list[LeaderboardRow]:
    """Sort rows by a column, by default by the score that ranks them.

    Ties are ordered by dev, each dev set by itself, and rows without a value come last. Texts and
    ranks sort from low to high, numbers and dates from high to low. Raises NotFoundError if the
    column is neither one of `ORDERS` nor a test set on which a row has a score.
    """
    scored = dict.fromkeys(name for row in rows for name in row.scores)
    column = column or next((row.headline for row in rows if row.headline), DEV)
    if column not in {*ORDERS, *scored} and rows and not is_of_mteb(column):
        names = dict.fromkeys([*ORDERS, *scored])
        hint = f"; expected {', '.join(names)}{did_you_mean(column, names)}"
        raise NotFoundError(f"there is no column {column!r} to sort by{hint}")
    by_dev = order_by_dev(rows)
    sets = list(dict.fromkeys(row.dev.identity for row in by_dev))
    by_dev.sort(key=lambda row: sets.index(row.dev.identity))
    if column == DEV:
        return by_dev
    key = ORDERS.get(column, partial(_read_mean, column))
    without = [row for row in by_dev if key(row) in (None, [])]
    known = [row for row in by_dev if key(row) not in (None, [])]
    return sorted(known, key=key, reverse=column not in RISING) + without
