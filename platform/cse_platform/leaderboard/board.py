"""The rows of the ranking that `cse-leaderboard` shows, built from SQL.

Scores are fractions.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    ScalarSelect,
    Select,
    Subquery,
    case,
    func,
    select,
    union_all,
)
from sqlalchemy.orm import Session, aliased

from cse_platform.leaderboard.annotations import BoardAnnotations, annotations, board_annotations
from cse_platform.leaderboard.filters import (
    BestKey,
    Filters,
    best_average_of_group,
    best_first,
    best_key,
    best_of_group,
    group_conditions,
    trial_conditions,
)
from cse_platform.leaderboard.records import (
    BOARD_FAMILIES,
    BUILTIN,
    TEST_SOURCES,
    AveragedSeeds,
    Configuration,
    ConfigurationSetup,
    DevSets,
    Estimate,
    FamilyName,
    LeaderboardRow,
    SeenSentences,
    estimate,
    family_named,
)
from cse_platform.leaderboard.test_scores import (
    Evaluated,
    read_seen_sentences,
    scores_by_evaluation,
)
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    ScoreRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
    begins_with,
    in_batches,
)
from cse_platform.tracking.events import IMPORTED
from cse_platform.tracking.history import COSTS, EPOCHS


def selected_configurations(
    filters: Filters, *, per_configuration: bool, averages: bool, limit: int | None = None
) -> Subquery:
    """Select the configurations to show, with the number of trials and GPU seconds behind each.

    By default these are the best configuration of each group by the rule of `best_key`; with
    `per_configuration`, all that have a complete trial, of which `limit` keeps those with the
    highest means. With `averages`, averages of seeds are included: all of them, or the best of each
    group.

    Returns:
        Columns `id`, `trials` and `gpu_seconds`. The latter two sum over the trials, of any state,
        of the whole group that pass the filters.
    """
    if not filters.keeps_groups_whole:
        query = _select_among_trials(
            filters, per_configuration=per_configuration, averages=averages, limit=limit
        )
        return query.subquery("selected")
    if per_configuration:
        configuration = ConfigurationRecord
        query = (
            _select_with_effort(configuration.id)
            .join(GroupRecord.configurations)
            .where(configuration.n > 0, *_exclude_averages(averages))
        )
        query = _limit_query(
            query, limit, configuration.mean.desc(), GroupRecord.method, configuration.hash
        )
        return query.where(*group_conditions(filters)).subquery("selected")
    best = [best_of_group(), *([best_average_of_group()] if averages else [])]
    of_groups = (_select_with_effort(each).where(*group_conditions(filters)) for each in best)
    return union_all(*of_groups).subquery("selected")


def _exclude_averages(averages: bool) -> list[ColumnElement[bool]]:
    """Build the condition that excludes averages of seeds; empty if `averages` is true."""
    return [] if averages else [ConfigurationRecord.averages.is_(None)]


def _select_with_effort(configuration: Any) -> Select[Any]:
    return select(configuration.label("id"), GroupRecord.trials, GroupRecord.gpu_seconds)


def _limit_query(query: Select[Any], limit: int | None, *order: Any) -> Select[Any]:
    """Keep the first `limit` rows of a query in this order; all of them if it is None."""
    return query if limit is None else query.order_by(*order).limit(limit)


def _select_among_trials(
    filters: Filters, *, per_configuration: bool, averages: bool, limit: int | None
) -> Select[Any]:
    tried = _select_tried_configurations(filters).subquery("tried")
    group = ConfigurationRecord.group_id
    best = best_first(tried.c.n, tried.c.mean, ConfigurationRecord.hash)
    ranked = (
        select(
            tried.c.id,
            tried.c.n,
            tried.c.mean,
            GroupRecord.method,
            ConfigurationRecord.hash,
            func.row_number()
            .over(partition_by=(group, ConfigurationRecord.averages.is_(None)), order_by=best)
            .label("place"),
            func.sum(tried.c.trials).over(partition_by=group).label("trials"),
            func.sum(tried.c.gpu_seconds).over(partition_by=group).label("gpu_seconds"),
        )
        .join(ConfigurationRecord, ConfigurationRecord.id == tried.c.id)
        .join(ConfigurationRecord.group)
        .where(*group_conditions(filters), *_exclude_averages(averages))
        .subquery("ranked")
    )
    query = select(ranked.c.id, ranked.c.trials, ranked.c.gpu_seconds).where(ranked.c.n > 0)
    if not per_configuration:
        return query.where(ranked.c.place == 1)
    return _limit_query(query, limit, ranked.c.mean.desc(), ranked.c.method, ranked.c.hash)


def _select_tried_configurations(filters: Filters) -> Select[Any]:
    """Aggregate the trials that pass the filters by configuration."""
    complete = TrialRecord.state == "COMPLETE"
    query = (
        select(
            TrialRecord.configuration_id.label("id"),
            func.sum(case((complete, 1), else_=0)).label("n"),
            func.avg(case((complete, TrialRecord.best_value))).label("mean"),
            func.count().label("trials"),
            func.sum(TrialRecord.gpu_seconds).label("gpu_seconds"),
        )
        .where(*trial_conditions(filters))
        .group_by(TrialRecord.configuration_id)
    )
    if filters.configuration is not None:
        named = begins_with(ConfigurationRecord.hash, filters.configuration)
        query = query.where(
            TrialRecord.configuration_id.in_(select(ConfigurationRecord.id).where(named))
        )
    return query


def tags_of_sweeps(session: Session, configurations: Sequence[int]) -> Mapping[int, set[str]]:
    """Collect the tags of the sweeps that hold each configuration, by the configuration's id.

    Tags come from the sweep files and from annotations.
    """
    held = (
        select(TrialRecord.configuration_id, SweepRecord.id, SweepRecord.name)
        .join(TrialRecord.places)
        .join(SweepTrialRecord.sweep)
        .where(TrialRecord.configuration_id.in_(configurations))
        .distinct()
    )
    lines = session.execute(held).all()
    in_files: dict[int, set[str]] = defaultdict(set)
    of_these = SweepTagRecord.sweep_id.in_({line.id for line in lines})
    for sweep, tag in session.execute(
        select(SweepTagRecord.sweep_id, SweepTagRecord.tag).where(of_these)
    ):
        in_files[sweep].add(tag)
    written = annotations(session, "sweep")
    tags: dict[int, set[str]] = defaultdict(set)
    for configuration, sweep, name in lines:
        words = written[name].words if name in written else ()
        tags[configuration] |= in_files[sweep].union(words)
    return tags


MAIN_FAMILIES: tuple[FamilyName, ...] = ("sts", "transfer", "long")
"""Families whose tasks each have one score, the one that papers report."""


def _read_first_test_accesses(session: Session) -> dict[tuple[str, str, bool], datetime]:
    """Find when test sets were first opened for each method and backbone.

    Their scores may have influenced the choice of any configuration whose first trial started
    later; one that had been tried before counts as chosen before. Keys are the method, the backbone
    and whether the sets were built-in, whatever the trial's dev sets were.
    """
    first = func.min(TestAccessRecord.opened)
    query = (
        select(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source, first)
        .join(GroupRecord.configurations)
        .join(ConfigurationRecord.seeds)
        .join(TrialRecord.test_accesses)
        .group_by(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source)
        .order_by(first.desc())
    )
    # Hub and SentEval count as one kind: the earlier comes last and overwrites the later.
    lines = session.execute(query)
    return {(method, backbone, source == BUILTIN): at for method, backbone, source, at in lines}


class _SharedLookups(NamedTuple):
    """Lookups shared by all rows."""

    opened: Mapping[tuple[str, str, bool], datetime]
    """When test sets were first opened, by method, backbone and whether they are built-in."""
    written: BoardAnnotations


def board_rows(
    session: Session,
    filters: Filters | None = None,
    *,
    families: Sequence[FamilyName] = MAIN_FAMILIES,
    per_configuration: bool = False,
    averages: bool = False,
    limit: int | None = None,
    among: Callable[[ConfigurationSetup], bool] | None = None,
) -> list[LeaderboardRow]:
    """Build a row per method, backbone, dev and evaluation identity, best dev mean first.

    With `per_configuration`, every configuration with a complete trial has a row. With `averages`,
    averages of seeds have rows of their own: all of them, or the best on dev of each group. A limit
    keeps the rows with the highest dev means. `among` keeps only the configurations that it returns
    True for, before their rows are built: a row takes many queries, and a store can hold very many
    configurations.
    """
    filters = filters or Filters()
    in_sql = limit if filters.identity is None else None  # identities are compared afterwards
    selected = selected_configurations(
        filters, per_configuration=per_configuration, averages=averages, limit=in_sql
    )
    effort = {line.id: line for line in session.execute(select(selected)) if line.id is not None}
    known = _SharedLookups(_read_first_test_accesses(session), board_annotations(session))
    ids = list(effort) if among is None else _filter_configurations(session, list(effort), among)
    rows = [
        row
        for batch in in_batches(ids)
        for row in _build_batch_rows(session, effort, batch, filters, families, known)
    ]
    wanted = [
        row for row in rows if filters.identity is None or _has_identity(row, filters.identity)
    ]
    return order_by_dev(wanted)[:limit]


def order_by_dev(rows: Iterable[LeaderboardRow]) -> list[LeaderboardRow]:
    """Order rows by their dev means, highest first.

    Rows with equal means are ordered by method, and within a method by the rule of `best_key`.
    """

    def rank(row: LeaderboardRow) -> BestKey:
        name = row.configuration.hash
        return best_key(seeds=len(row.seeds), mean=row.dev_score.mean, configuration=name)

    by_rule = sorted(rows, key=lambda row: rank(row)[1:], reverse=True)
    return sorted(by_rule, key=lambda row: (-rank(row)[1], row.method))


def _filter_configurations(
    session: Session, configurations: Sequence[int], among: Callable[[ConfigurationSetup], bool]
) -> list[int]:
    """Keep the configurations whose setup `among` accepts, in batches of queries."""
    is_scored = (
        select(TrialRecord.id)
        .join(TrialRecord.scores)
        .where(TrialRecord.configuration_id == ConfigurationRecord.id, ScoreRecord.split == "test")
        .correlate(ConfigurationRecord)
        .exists()
    )
    query = select(
        ConfigurationRecord.id,
        GroupRecord.method,
        GroupRecord.backbone,
        ConfigurationRecord.corpus,
        GroupRecord.dev_search,
        ConfigurationRecord.values,
        is_scored.label("is_scored"),
    ).join(ConfigurationRecord.group)
    passing = list[int]()
    for batch in in_batches(configurations):
        is_in_batch = ConfigurationRecord.id.in_(batch)
        passing += [
            identity
            for identity, *setup in session.execute(query.where(is_in_batch))
            if among(ConfigurationSetup(*setup))
        ]
    return passing


def _build_batch_rows(
    session: Session,
    effort: Mapping[int, Row[Any]],
    ids: Sequence[int],
    filters: Filters,
    families: Sequence[FamilyName],
    known: _SharedLookups,
) -> Iterator[LeaderboardRow]:
    """Build the rows of some configurations: one per evaluation identity, or one without scores."""
    scores = scores_by_evaluation(session, ids, [family_named(name) for name in families])
    tags = tags_of_sweeps(session, ids)
    seen = read_seen_sentences(session, ids)
    lines = session.execute(_select_complete_seeds(ids, filters)).all()
    averaged = _read_averaged_seeds(session, [line.ConfigurationRecord for line in lines])
    for configuration, of_it in groupby(lines, lambda line: line[0].id):
        seeds = list(of_it)
        for evaluated in scores.get(configuration, [{}]):
            yield _build_row(
                seeds,
                evaluated,
                effort[configuration],
                known,
                tags=tags.get(configuration, set()),
                seen=seen.get(configuration, ()),
                averages=averaged.get(configuration),
            )


def _read_averaged_seeds(
    session: Session, configurations: Iterable[ConfigurationRecord]
) -> dict[int, AveragedSeeds]:
    """Read the seeds that each average of weights was made from, by the average's id.

    Their mean dev score is None if one of the seeds is not stored.
    """
    averages = {each.id: tuple(each.averages) for each in configurations if each.averages}
    if not averages:
        return {}
    keys = {key for averaged in averages.values() for key in averaged}
    query = select(TrialRecord.key, TrialRecord.best_value).where(TrialRecord.key.in_(keys))
    values = {key: value for key, value in session.execute(query) if value is not None}
    return {
        average: AveragedSeeds(
            of, fmean(values[key] for key in of) if values.keys() >= {*of} else None
        )
        for average, of in averages.items()
    }


def _select_complete_seeds(
    configurations: Sequence[int], filters: Filters
) -> Select[*tuple[Any, ...]]:
    """Select one line for each complete seed."""
    return (
        select(
            ConfigurationRecord,
            GroupRecord,
            TrialRecord.seed,
            TrialRecord.key,
            TrialRecord.best_value,
            TrialRecord.start_value,
            TrialRecord.finished,
            TrialRecord.wall_seconds,
            TrialRecord.costs,
            MachineRecord.host,
            MachineRecord.hardware,
            _select_first_sweep(filters.sweep).label("sweep"),
            _select_first_start().label("first_start"),
        )
        .join(ConfigurationRecord.group)
        .join(ConfigurationRecord.seeds)
        .outerjoin(TrialRecord.machine)
        .where(
            ConfigurationRecord.id.in_(configurations),
            TrialRecord.state == "COMPLETE",
            *trial_conditions(filters),
        )
        .order_by(ConfigurationRecord.id, TrialRecord.seed)
    )


def _select_first_sweep(sweep: str | None) -> ScalarSelect[str]:
    tried = aliased(TrialRecord)
    query = (
        select(SweepRecord.name)
        .join(SweepRecord.places)
        .join(tried, SweepTrialRecord.trial)
        .where(tried.configuration_id == ConfigurationRecord.id)
        .order_by(SweepRecord.id)
        .limit(1)
        .correlate(ConfigurationRecord)
    )
    return (query if sweep is None else query.where(SweepRecord.name == sweep)).scalar_subquery()


def _select_first_start() -> ScalarSelect[datetime]:
    tried = aliased(TrialRecord)
    query = select(func.min(tried.started)).where(tried.configuration_id == ConfigurationRecord.id)
    return query.correlate(ConfigurationRecord).scalar_subquery()


def _build_row(
    seeds: Sequence[Row[Any]],
    evaluated: Evaluated,
    effort: Row[Any],
    known: _SharedLookups,
    *,
    tags: Collection[str],
    seen: tuple[SeenSentences, ...],
    averages: AveragedSeeds | None,
) -> LeaderboardRow:
    """Build a row of its complete seeds and their scores; ranks and gaps are added to a board."""
    first = seeds[0]
    configuration, group = first.ConfigurationRecord, first.GroupRecord
    starts = [line.start_value for line in seeds if line.start_value is not None]
    took = [line.wall_seconds for line in seeds if line.wall_seconds is not None]
    machines = dict.fromkeys(f"{line.host} · {line.hardware}" for line in seeds if line.host)
    values = {line.seed: line.best_value for line in seeds}
    keys = {line.seed: line.key for line in seeds}
    written = known.written.of(configuration.hash, keys.values())
    return LeaderboardRow(
        method=group.method,
        backbone=group.backbone,
        sweep=first.sweep,
        configuration=as_configuration(configuration),
        seeds=list(values),
        keys=keys,
        dev=dev_set(group),
        dev_score=estimate(values, group.dev_identity, group.dev_source),
        dev_untrained=math.fsum(starts) / len(starts) if starts else None,
        trials=int(effort.trials),
        gpu_hours=None if group.dev_source == IMPORTED else effort.gpu_seconds / 3600,
        finished=max(line.finished for line in seeds),
        machines=list(machines),
        tags=sorted({*tags}.union(*(entry.words for entry in written))),
        corpus=configuration.corpus,
        scores=_build_estimates(evaluated, set(values)),
        wall_seconds=math.fsum(took) / len(took) if took else None,
        costs=_estimate_costs(seeds),
        epochs=min((line.costs[EPOCHS] for line in seeds if EPOCHS in line.costs), default=None),
        test_opened=_find_earlier_opening(first.first_start, group, evaluated, known),
        starred=any(entry.star for entry in written),
        notes=[entry.note.text for entry in written if entry.note],
        other_code=configuration.code != group.code,
        seen=seen,
        averages=averages,
    )


def _find_earlier_opening(
    first_start: datetime, group: GroupRecord, evaluated: Evaluated, known: _SharedLookups
) -> datetime | None:
    """Find when a row's test sets were first opened, if that was before its first trial.

    The test sets are those of the row's scores; for a row without scores, those whose source
    (built-in or not) is that of its dev sets.
    """
    own = group.dev_source
    sources = {score.source or own for score in evaluated.values()} or {own}
    kinds = {source == BUILTIN for source in sources & TEST_SOURCES}
    times = [known.opened.get((group.method, group.backbone, builtin)) for builtin in kinds]
    return min((at for at in times if at is not None and at < first_start), default=None)


def as_configuration(record: ConfigurationRecord) -> Configuration:
    """Return the configuration that is stored in a row."""
    return Configuration(record.hash, record.values, record.searched, record.code)


def dev_set(group: GroupRecord) -> DevSets:
    """Return the dev sets that all trials of a group share."""
    return DevSets(group.dev_checkpoint, group.dev_search, group.dev_identity, group.dev_source)


def _estimate_costs(seeds: Sequence[Row[Any]]) -> dict[str, Estimate]:
    """Estimate each cost over the seeds that have it.

    If the seeds ran on different hardware, the identity of the estimate names all of it.
    """
    costs = {}
    for name in COSTS:
        lines = [line for line in seeds if name in line.costs]
        hardware = sorted({line.hardware or "" for line in lines})
        if lines:
            values = {line.seed: line.costs[name] for line in lines}
            costs[name] = estimate(values, " + ".join(hardware), "")
    return costs


def _build_estimates(evaluated: Evaluated, seeds: set[int]) -> dict[str, Estimate]:
    """Estimate each score over the seeds that pass the filters, in the papers' order.

    A lab's own test sets come last, by name.
    """
    order = [column for family in BOARD_FAMILIES.values() for column in family.columns]
    estimates = {}
    known = [column for column in order if column in evaluated]
    for column in [*known, *sorted(evaluated.keys() - known)]:
        scores = evaluated[column]
        if kept := {seed: scores.values[seed] for seed in sorted(scores.values) if seed in seeds}:
            estimates[column] = estimate(kept, scores.identity, scores.source)
    return estimates


def _has_identity(row: LeaderboardRow, identity: str) -> bool:
    """Whether the identity of the row's dev sets or of one of its scores starts with `identity`."""
    identities = [row.dev.identity, *(score.identity for score in row.scores.values())]
    return any(candidate.startswith(identity) for candidate in identities)
