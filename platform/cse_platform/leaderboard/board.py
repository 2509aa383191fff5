"""The rows of the ranking that `cse-leaderboard` shows, built from SQL: the selected configurations
with their test scores.

Scores are fractions.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from cse_methods.tasks import CONTAMINATION_METRICS, STS_TASKS, TRANSFER_TASKS
from cse_platform.counting_seeds import ESTIMATED, select_counting_seeds
from cse_platform.leaderboard.families import (
    BENCHMARK,
    BOARD_FAMILIES,
    MTEB,
    SCORE_COLUMNS,
    FamilyName,
    family_named,
    is_of_mteb,
    task_of,
)
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.leaderboard.records import (
    BUILTIN,
    OWN_FILE,
    TEST_SOURCES,
    Annotation,
    Annotations,
    Configuration,
    ConfigurationSetup,
    DevSets,
    Estimate,
    LeaderboardRow,
    SeenIn,
    SeenSentences,
    dev_key,
    estimate,
    order_by_dev,
)
from cse_platform.leaderboard.seed_scores import Evaluated, read_evaluations, scores_by_evaluation
from cse_platform.leaderboard.selection import (
    require_filters,
    selected_configurations,
    trial_conditions,
)
from cse_platform.stores.sql.estimates import CHOSE, CHOSEN, REPEATS
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    AttemptRecord,
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    ScoreRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TestAccessRecord,
    TrialRecord,
    in_batches,
)
from cse_platform.tracking.events import IMPORTED, Annotatable
from cse_platform.tracking.history import COSTS, EPOCHS
from cse_platform.values import group_by


def read_annotations(
    session: Session, about: Annotatable, names: Collection[str] | None = None
) -> dict[str, Annotations]:
    """The notes, tags and stars of trials, configurations or sweeps, by key, hash or name.

    Those of `names`, or all if it is None.
    """
    current = AnnotationRecord.about == about, AnnotationRecord.stands.is_(True)
    query = select(AnnotationRecord).where(*current).order_by(AnnotationRecord.word)
    queries = [query]
    if names is not None:
        queries = [query.where(AnnotationRecord.name.in_(batch)) for batch in in_batches([*names])]
    fields: dict[str, dict[str, list[Annotation]]] = defaultdict(lambda: defaultdict(list))
    for record in (record for query in queries for record in session.scalars(query)):
        text = record.word or record.text
        fields[record.name][record.field].append(Annotation(text, record.who, record.time))
    return {
        name: Annotations(
            next(iter(own["note"]), None), next(iter(own["star"]), None), tuple(own["tag"])
        )
        for name, own in fields.items()
    }


def tags_of_sweeps(session: Session, configurations: Sequence[int]) -> Mapping[int, set[str]]:
    """Collect the tags of the sweeps that hold each configuration, by the configuration's id.

    Tags come from the sweep files and from annotations.
    """
    query = (
        select(TrialRecord.configuration_id, SweepRecord.name, SweepTagRecord.tag)
        .join(TrialRecord.links)
        .join(SweepTrialRecord.sweep)
        .outerjoin(SweepRecord.tags)
        .where(TrialRecord.configuration_id.in_(configurations))
        .distinct()
    )
    written = read_annotations(session, "sweep")
    tags: dict[int, set[str]] = defaultdict(set)
    for configuration, name, tag in session.execute(query):
        tags[configuration].update([tag] if tag else [], written.get(name, Annotations()).tag_names)
    return tags


def read_seen_sentences(
    session: Session, configurations: Sequence[int]
) -> dict[int, tuple[SeenSentences, ...]]:
    """Read how many sentences of test and dev sets each configuration has seen.

    For each set, its data and where it was looked for, the last evaluation of any of its trials
    counts. Sets are sorted by kind, test before dev, and in the papers' order.
    """
    query = (
        select(
            TrialRecord.configuration_id,
            ScoreRecord.task,
            ScoreRecord.split,
            ScoreRecord.metric,
            ScoreRecord.identity,
            ScoreRecord.value,
        )
        .select_from(TrialRecord)
        .join(TrialRecord.scores)
        .where(
            TrialRecord.configuration_id.in_(configurations),
            ScoreRecord.metric.in_(CONTAMINATION_METRICS),
        )
        .order_by(ScoreRecord.measured, ScoreRecord.identity)
    )
    lines = session.execute(query).all()
    if not lines:
        return {}
    evaluations = read_evaluations(session, (line.identity for line in lines))
    counted: dict[int, dict[object, SeenSentences]] = defaultdict(dict)
    for configuration, task, split, metric, identity, value in lines:
        settings = evaluations[identity].settings
        sentences = settings["sentences"]
        seen = SeenSentences(
            task=task,
            split=cast(Literal["dev", "test"], split),
            seen_in=cast("SeenIn", metric.removeprefix("in_")),
            names=tuple(settings["in"]),
            sentences=sentences,
            seen=round(value * sentences),
            source=evaluations[identity].source or "",
            data_sha256=settings.get("data_sha256", ""),
        )
        of_data = (seen.data_sha256 or seen.source) if split == "test" else ""
        counted[configuration][task, split, metric, of_data] = seen
    tasks = (*STS_TASKS, *TRANSFER_TASKS)

    def sort_key(entry: SeenSentences) -> tuple[int, bool, int, str]:
        known = tasks.index(entry.task) if entry.task in tasks else len(tasks)
        in_order = CONTAMINATION_METRICS.index(f"in_{entry.seen_in}")
        return in_order, entry.split == "dev", known, entry.task

    return {name: tuple(sorted(sets.values(), key=sort_key)) for name, sets in counted.items()}


def _keep_seen_of_row(
    seen: Iterable[SeenSentences], evaluated: Evaluated
) -> tuple[SeenSentences, ...]:
    """Keep what was counted of dev sets, and of the data that the scores of a row are on."""
    scores = group_by(evaluated.items(), lambda item: task_of(item[0]))

    def is_of_row(entry: SeenSentences) -> bool:
        of_task = [score for _, score in scores.get(entry.task, ())]
        if entry.data_sha256:
            return any(score.data_sha256 == entry.data_sha256 for score in of_task)
        return any(score.source in (entry.source, OWN_FILE) for score in of_task)

    return tuple(entry for entry in seen if entry.split == "dev" or is_of_row(entry))


MAIN_FAMILIES: tuple[FamilyName, ...] = ("sts", "transfer", "long", MTEB)
"""Families whose tasks each have one score, the one that papers report."""
Opened = Mapping[tuple[str, str, bool], datetime]
"""When test sets were first opened, by method, backbone and whether they are built-in."""


def read_first_test_accesses(session: Session, *conditions: ColumnElement[bool]) -> Opened:
    """Find when test sets were first opened for trials that meet the conditions.

    See `LeaderboardRow.test_opened`.
    """
    first = func.min(TestAccessRecord.opened)
    query = (
        select(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source, first)
        .join(GroupRecord.configurations)
        .join(ConfigurationRecord.seeds)
        .join(TrialRecord.test_accesses)
        .where(TestAccessRecord.source.in_(TEST_SOURCES), *conditions)
        .group_by(GroupRecord.method, GroupRecord.backbone, TestAccessRecord.source)
        .order_by(first.desc())
    )
    # All sources of real data count as one kind: the earlier comes last and overwrites the later.
    lines = session.execute(query)
    return {(method, backbone, source == BUILTIN): at for method, backbone, source, at in lines}


def board_rows(
    session: Session,
    filters: Filters = EVERY_ROW,
    *,
    families: Sequence[FamilyName] = MAIN_FAMILIES,
    per_configuration: bool = False,
    limit: int | None = None,
    among: Callable[[ConfigurationSetup], bool] | None = None,
) -> list[LeaderboardRow]:
    """Build a row per method, backbone, dev and evaluation identity, best dev mean first.

    With `per_configuration`, every configuration with a complete trial has a row. A limit keeps the
    best rows by the rule of `best_key`. `among` keeps only the configurations that it returns True
    for, before their rows are built: a row takes many queries, and a store can hold very many
    configurations.
    """
    require_filters(filters)
    in_sql = limit if filters.identity is None else None  # identities are compared afterwards
    selected = selected_configurations(filters, per_configuration=per_configuration, limit=in_sql)
    effort = {line.id: line for line in session.execute(select(selected)) if line.id is not None}
    opened = read_first_test_accesses(session)
    written = read_annotations(session, "configuration") | read_annotations(session, "trial")
    ids = list(effort) if among is None else _filter_configurations(session, list(effort), among)
    best = set[int]()
    if per_configuration:
        every = replace(filters, configuration=None)
        of_groups = selected_configurations(every, per_configuration=False, limit=None)
        best = {line.id for line in session.execute(select(of_groups)) if line.id is not None}
    rows = list[LeaderboardRow]()
    for batch in in_batches(ids):
        scores = scores_by_evaluation(session, batch, [family_named(name) for name in families])
        tags = tags_of_sweeps(session, batch)
        seen = read_seen_sentences(session, batch)
        chosen = CHOSE
        if per_configuration:  # a search chose the best of a group and its highest trial alone
            of_best = ConfigurationRecord.id.in_(best.intersection(batch))
            chosen = or_(CHOSEN, and_(CHOSE, of_best))
        lines = session.execute(_select_complete_seeds(batch, filters, chosen)).all()
        for configuration, of_it in groupby(lines, lambda line: line[0].id):
            seeds = list(of_it)
            rows += [
                _build_row(
                    seeds,
                    evaluated,
                    effort[configuration],
                    opened,
                    written,
                    tags=tags.get(configuration, set()),
                    seen=_keep_seen_of_row(seen.get(configuration, ()), evaluated),
                    is_alone=per_configuration,
                )
                for evaluated in scores.get(configuration, [{}])
            ]
    if (wanted := filters.identity) is not None:
        rows = [
            row
            for row in rows
            if row.dev.identity.startswith(wanted)
            or any(score.identity.startswith(wanted) for score in row.scores.values())
        ]
    return order_by_dev(sorted(rows, key=dev_key, reverse=True)[:limit])


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


def _select_complete_seeds(
    configurations: Sequence[int], filters: Filters, chosen: ColumnElement[bool]
) -> Select[*tuple[Any, ...]]:
    """Select one line for each complete seed; `chosen` matches those that chose it."""
    tried, shown = aliased(TrialRecord), aliased(AttemptRecord)
    of_configuration = tried.configuration_id == ConfigurationRecord.id
    first_start = select(func.min(shown.started)).join(tried.shown.of_type(shown))
    first_start = first_start.where(of_configuration)
    first_choice = (
        select(func.min(SweepTrialRecord.chosen)).join(tried, SweepTrialRecord.trial)
    ).where(of_configuration)
    first_sweep = (
        select(SweepRecord.name)
        .join(SweepRecord.links)
        .join(tried, SweepTrialRecord.trial)
        .where(of_configuration)
        .order_by(SweepRecord.id)
        .limit(1)
    )
    if filters.sweep is not None:
        first_sweep = first_sweep.where(SweepRecord.name == filters.sweep)
    return (
        select(
            ConfigurationRecord,
            GroupRecord,
            TrialRecord.seed,
            TrialRecord.key,
            AttemptRecord.best_value,
            AttemptRecord.start_value,
            AttemptRecord.finished,
            AttemptRecord.wall_seconds,
            AttemptRecord.costs,
            MachineRecord.host,
            MachineRecord.hardware,
            CHOSE.label("chose"),
            chosen.label("chosen"),
            REPEATS.label("repeats"),
            first_sweep.correlate(ConfigurationRecord).scalar_subquery().label("sweep"),
            first_start.correlate(ConfigurationRecord).scalar_subquery().label("first_start"),
            first_choice.correlate(ConfigurationRecord).scalar_subquery().label("first_choice"),
        )
        .join(ConfigurationRecord.group)
        .join(ConfigurationRecord.seeds)
        .join(TrialRecord.shown)
        .outerjoin(AttemptRecord.machine)
        .where(
            ConfigurationRecord.id.in_(configurations),
            AttemptRecord.state == "COMPLETE",
            *trial_conditions(filters),
        )
        .order_by(ConfigurationRecord.id, TrialRecord.seed)
    )


def _build_row(
    seeds: Sequence[Row[Any]],
    evaluated: Evaluated,
    effort: Row[Any],
    opened: Opened,
    written: Mapping[str, Annotations],
    *,
    tags: Collection[str],
    seen: tuple[SeenSentences, ...],
    is_alone: bool,
) -> LeaderboardRow:
    """Build a row of its complete seeds and their scores; ranks and gaps are added to a board.

    `is_alone` says that it was not selected among the configurations of its group.
    """
    first = seeds[0]
    configuration, group = first.ConfigurationRecord, first.GroupRecord
    starts = [line.start_value for line in seeds if line.start_value is not None]
    took = [line.wall_seconds for line in seeds if line.wall_seconds is not None]
    machines = dict.fromkeys(f"{line.host} · {line.hardware}" for line in seeds if line.host)
    values = {line.seed: line.best_value for line in seeds}
    chose = {line.seed for line in seeds if line.chose}
    chosen_by = {line.seed for line in seeds if line.chosen}
    repeats = {line.seed for line in seeds if line.repeats}
    dev_score = estimate_dev(values, chose, group, repeats)
    is_chosen = dev_score.counts_choice or dev_score.standing == ESTIMATED
    keys = {line.seed: line.key for line in seeds}
    entries = [written[name] for name in (configuration.hash, *keys.values()) if name in written]
    # The test sets are those of the scores; without scores, sets of the kind of the dev sets.
    own = group.dev_source
    sources = {score.source or own for score in evaluated.values()} or {own}
    kinds = {source == BUILTIN for source in sources & TEST_SOURCES}
    times = [opened.get((group.method, group.backbone, builtin)) for builtin in kinds]
    chosen = min(filter(None, (first.first_start, first.first_choice)))
    before = (at for at in times if at is not None and at < chosen)
    return LeaderboardRow(
        method=group.method,
        backbone=group.backbone,
        sweep=first.sweep,
        configuration=as_configuration(configuration),
        seeds=list(dev_score.values),
        keys=keys,
        dev=dev_set(group),
        dev_score=dev_score,
        chosen_by={seed: values[seed] for seed in sorted(chosen_by | dev_score.left_out.keys())},
        best_of=int(effort.rivals) if is_chosen and not is_alone else 1,
        dev_untrained=math.fsum(starts) / len(starts) if starts else None,
        trials=int(effort.trials),
        gpu_hours=None if group.dev_source == IMPORTED else effort.gpu_seconds / 3600,
        finished=max(line.finished for line in seeds),
        machines=list(machines),
        tags=sorted({*tags}.union(*(entry.tag_names for entry in entries))),
        corpus=configuration.corpus,
        scores=_build_estimates(evaluated, values, list(dev_score.values), chose, repeats),
        benchmarks={
            average: tuple(c for c, each in evaluated.items() if each.identity in scores.members)
            for average, scores in evaluated.items()
            if average.startswith(BENCHMARK)
        },
        wall_seconds=math.fsum(took) / len(took) if took else None,
        costs=_estimate_costs(seeds),
        epochs=min((line.costs[EPOCHS] for line in seeds if EPOCHS in line.costs), default=None),
        test_opened=min(before, default=None),
        starred=any(entry.star for entry in entries),
        notes=[entry.note.text for entry in entries if entry.note],
        other_code=configuration.code is not None and configuration.code != group.code,
        seen=seen,
    )


def as_configuration(record: ConfigurationRecord) -> Configuration:
    """Return the configuration that is stored in a row."""
    return Configuration(
        record.hash, record.values, record.searched, record.code, record.corpus_sha256
    )


def dev_set(group: GroupRecord) -> DevSets:
    """Return the dev sets that all trials of a group share."""
    return DevSets(group.dev_checkpoint, group.dev_search, group.dev_identity, group.dev_source)


def estimate_dev(
    values: Mapping[int, float], chose: set[int], group: GroupRecord, repeats: Collection[int] = ()
) -> Estimate:
    """Estimate the dev score of a configuration over the complete seeds that count."""
    counted = select_counting_seeds(values, chose)
    return estimate(values, group.dev_identity, group.dev_source, counted, chose, repeats)


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


def _build_estimates(
    evaluated: Evaluated,
    complete: Collection[int],
    counted: Sequence[int],
    chose: set[int],
    repeats: set[int],
) -> dict[str, Estimate]:
    """Estimate each score over the `complete` seeds that count, in the papers' order.

    If no seed that counts has a score on every task that the row has of a family, all seeds count
    there: tasks over unlike seeds would have no average and no comparison. Tasks of mteb and a
    lab's own test sets come last, in the order in which they were scored.
    """
    of_mteb = [column for column in evaluated if is_of_mteb(column)]
    peers = dict.fromkeys(of_mteb, of_mteb) | {
        column: [each for each in family.columns if each in evaluated]
        for family in BOARD_FAMILIES.values()
        for column in family.columns
    }
    estimates = {}
    known = [column for column in SCORE_COLUMNS if column in evaluated]
    for column in dict.fromkeys([*known, *evaluated]):
        scores = evaluated[column]
        if kept := {seed: v for seed, v in sorted(scores.values.items()) if seed in complete}:
            of_family = [evaluated[each].values.keys() for each in peers.get(column, [column])]
            counts = set(counted).intersection(*of_family)
            counting = counted if counts else None
            estimates[column] = estimate(
                kept, scores.identity, scores.source, counting, chose, repeats
            )
    return estimates
