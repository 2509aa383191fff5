"""Selects the trials and configurations that a leaderboard shows: filters in SQL, the refusal of
those that name nothing, and the best configuration of each group.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Select,
    Subquery,
    and_,
    case,
    exists,
    false,
    func,
    or_,
    select,
    union,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from cse_methods.errors import BackboneError
from cse_methods.published.released import SCORED_BY, names_of_released
from cse_methods.registry import available_methods
from cse_platform.counting_seeds import ESTIMATED
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.filters import Filters, backbones_in
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import UNIT
from cse_platform.stores.sql.estimates import aggregate_seeds, estimate_from
from cse_platform.stores.sql.tables import (
    AnnotationRecord,
    AttemptRecord,
    ConfigurationRecord,
    GroupRecord,
    MachineRecord,
    SweepRecord,
    SweepTagRecord,
    SweepTrialRecord,
    TrialRecord,
    begins_with,
)
from cse_platform.sweep.problems import did_you_mean
from cse_platform.tracking.events import Annotatable


def require_filters(filters: object) -> None:
    """Raise TypeError if something else is in the place of filters, such as a sweep's name."""
    if not isinstance(filters, Filters):
        raise TypeError(f"expected filters, such as Filters(sweep='my-first'), got {filters!r}")


def group_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Build the SQL conditions on groups.

    Released encoders that were trained from one of the backbones pass, too.
    """
    conditions: list[ColumnElement[bool]] = []
    if filters.backbone is not None:
        backbones, backbone = backbones_in(filters.backbone), GroupRecord.backbone
        released = [
            (backbone == name) | backbone.startswith(f"{name}@")
            for name in names_of_released(backbones)
        ]
        scored = and_(GroupRecord.method == SCORED_BY, or_(false(), *released))
        conditions.append(or_(backbone.in_(backbones), scored))
    if filters.method is not None:
        conditions.append(GroupRecord.method == filters.method)
    return conditions


def trial_conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Build the SQL conditions on single trials and the attempts that they show."""
    conditions: list[ColumnElement[bool]] = []
    if filters.configuration is not None:
        begins = begins_with(ConfigurationRecord.hash, filters.configuration)
        named = select(ConfigurationRecord.id).where(begins)
        conditions.append(TrialRecord.configuration_id.in_(named))
    if filters.hardware is not None:
        machine = or_(
            MachineRecord.hardware.icontains(filters.hardware, autoescape=True),
            MachineRecord.host.icontains(filters.hardware, autoescape=True),
        )
        conditions.append(AttemptRecord.machine_id.in_(select(MachineRecord.id).where(machine)))
    if filters.since is not None:
        conditions.append(AttemptRecord.finished >= filters.since)
    linked = select(SweepTrialRecord.trial_id).join(SweepTrialRecord.sweep)
    if filters.sweep is not None:
        conditions.append(TrialRecord.id.in_(linked.where(SweepRecord.name == filters.sweep)))
    if (tag := filters.tag) is not None:  # of the trial, its configuration or its sweep
        configurations = ConfigurationRecord.hash.in_(select_tagged("configuration", tag))
        tagged = union(
            linked.where(match_tagged_sweep(tag)),
            select(TrialRecord.id).where(TrialRecord.key.in_(select_tagged("trial", tag))),
            select(TrialRecord.id).join(TrialRecord.configuration).where(configurations),
        )
        conditions.append(TrialRecord.id.in_(tagged))
    return conditions


def match_tagged_sweep(tag: str) -> ColumnElement[bool]:
    """Match the sweeps that have a tag, in their file or by annotation."""
    in_file = select(SweepTagRecord.sweep_id).where(SweepTagRecord.tag == tag)
    return or_(SweepRecord.id.in_(in_file), SweepRecord.name.in_(select_tagged("sweep", tag)))


def select_tagged(about: Annotatable, tag: str) -> Select[str]:
    """Select the names of the trials, configurations or sweeps that have a tag."""
    return select(AnnotationRecord.name).where(
        AnnotationRecord.about == about,
        AnnotationRecord.field == "tag",
        AnnotationRecord.word == tag,
        AnnotationRecord.stands.is_(True),
    )


def _select_debugging_trials() -> CompoundSelect[int]:
    """Select the trials that were run to debug, which are no effort of a search: an error of the
    code ended them, or no sweep holds them but those tagged `debug`.
    """
    link, other = aliased(SweepTrialRecord), aliased(SweepTrialRecord)
    debug = select(SweepRecord.id).where(match_tagged_sweep("debug"))
    elsewhere = exists().where(other.trial_id == link.trial_id, other.sweep_id.not_in(debug))
    return union(
        select(TrialRecord.id).join(TrialRecord.shown).where(AttemptRecord.cause == "error"),
        select(link.trial_id).where(link.sweep_id.in_(debug), ~elsewhere),
    )


def best_first(standing: Any, mean: Any, configuration: Any) -> tuple[ColumnElement[Any], ...]:
    """Build the `ORDER BY` that is `best_key`."""
    return standing.desc(), _round_mean(mean).desc(), configuration.desc()


def _round_mean(mean: Any) -> ColumnElement[float]:
    """Express a mean dev score in units of 1e-12, rounded."""
    return func.round(mean * UNIT)


def _select_best_of_group() -> ColumnElement[Any]:
    """Select the best configuration of a group by the stored estimates, as `best_key` ranks them.

    An index holds the configurations in order of standing and mean. So two index look-ups suffice
    for a group of any size: the best mean, and then the means within rounding of it, among which
    `_round_mean` decides.
    """
    candidate, other = aliased(ConfigurationRecord), aliased(ConfigurationRecord)
    first = select(other.standing, other.mean).where(other.group_id == GroupRecord.id, other.n > 0)
    first = first.order_by(other.standing.desc(), other.mean.desc()).limit(1)
    standing, mean = (
        first.with_only_columns(column).correlate(GroupRecord).scalar_subquery()
        for column in (other.standing, other.mean)
    )
    return (
        select(candidate.id)
        .where(
            candidate.group_id == GroupRecord.id,
            candidate.n > 0,
            candidate.standing == standing,
            candidate.mean >= mean - 1 / UNIT,
        )
        .order_by(_round_mean(candidate.mean).desc(), candidate.hash.desc())
        .limit(1)
        .correlate(GroupRecord)
        .scalar_subquery()
    )


def selected_configurations(
    filters: Filters, *, per_configuration: bool, limit: int | None = None
) -> Subquery:
    """Select the configurations to show, with the number of trials and GPU seconds behind each.

    By default these are the best configuration of each group by the rule of `best_key`; with
    `per_configuration`, all that have a complete trial, of which `limit` keeps the best by this
    rule.

    Returns:
        Columns `id`, `trials`, `gpu_seconds` and `rivals`. `trials` and `gpu_seconds` sum over
        the trials, of any state, of the whole group that pass the filters and were not run to
        debug. `rivals`, without `per_configuration`, counts its configurations that seeds estimate
        which did not choose them, or if there is none, those of the trials that ended in a search.
    """
    within = filters.sweep, filters.tag, filters.configuration, filters.hardware, filters.since
    if any(value is not None for value in within):  # groups pass in part
        return _select_among_trials(
            filters, per_configuration=per_configuration, limit=limit
        ).subquery("selected")
    debugging = (
        select(
            ConfigurationRecord.group_id.label("group"),
            func.count().label("trials"),
            func.sum(TrialRecord.gpu_seconds).label("gpu_seconds"),
        )
        .join(TrialRecord.configuration)
        .where(TrialRecord.id.in_(_select_debugging_trials()))
        .group_by(ConfigurationRecord.group_id)
        .subquery("debugging")
    )
    of_group = debugging.c.group == GroupRecord.id
    effort = [
        (getattr(GroupRecord, name) - func.coalesce(debugging.c[name], 0)).label(name)
        for name in ("trials", "gpu_seconds")
    ]
    rival = aliased(ConfigurationRecord)
    of_this_group = rival.group_id == GroupRecord.id, rival.n > 0, rival.standing == ESTIMATED
    estimated = select(func.count()).select_from(rival).where(*of_this_group).correlate(GroupRecord)
    searched = effort[0] - _count_idle_trials()
    rivals = _choose_rivals(estimated.scalar_subquery(), searched)
    query = select(_select_best_of_group().label("id"), *effort, rivals)
    if per_configuration:
        configuration = ConfigurationRecord
        query = select(configuration.id, *effort).join(GroupRecord.configurations)
        query = query.where(configuration.n > 0)
        if limit is not None:
            best = best_first(configuration.standing, configuration.mean, configuration.hash)
            query = query.order_by(*best).limit(limit)
    query = query.outerjoin(debugging, of_group).where(*group_conditions(filters))
    return query.subquery("selected")


def _choose_rivals(estimated: Any, searched: Any) -> ColumnElement[int]:
    return func.coalesce(func.nullif(estimated, 0), searched).label("rivals")


def _ended_in_search() -> ColumnElement[bool]:
    """Match the trials that have ended, and not only as further seeds."""
    link = aliased(SweepTrialRecord)
    in_search = exists().where(link.trial_id == TrialRecord.id, link.role != "confirm")
    return and_(AttemptRecord.state != "RUNNING", in_search.correlate(TrialRecord))


def _count_idle_trials() -> ColumnElement[int]:
    """Count the trials of a group that are further seeds or have not ended, and that were not run
    to debug. Only sweeps that can have some are read.
    """
    query = (
        select(func.count(TrialRecord.id.distinct()))
        .select_from(SweepRecord)
        .join(SweepRecord.links)
        .join(SweepTrialRecord.trial)
        .join(TrialRecord.shown)
        .join(TrialRecord.configuration)
        .where(
            SweepRecord.method == GroupRecord.method,
            or_(SweepRecord.confirming > 0, SweepRecord.state != "COMPLETE"),
            ConfigurationRecord.group_id == GroupRecord.id,
            TrialRecord.id.not_in(_select_debugging_trials()),
            ~_ended_in_search(),
        )
    )
    return query.correlate(GroupRecord).scalar_subquery()


def _select_among_trials(
    filters: Filters, *, per_configuration: bool, limit: int | None
) -> Select[Any]:
    """Select as `selected_configurations`, by aggregating the trials that pass the filters."""
    debugging = TrialRecord.id.in_(_select_debugging_trials())
    of_configurations = (
        select(
            TrialRecord.configuration_id.label("id"),
            *aggregate_seeds(),
            func.sum(case((debugging, 0), else_=1)).label("trials"),
            func.sum(case((or_(debugging, ~_ended_in_search()), 0), else_=1)).label("searched"),
            func.sum(case((debugging, 0.0), else_=TrialRecord.gpu_seconds)).label("gpu_seconds"),
        )
        .select_from(TrialRecord)
        .join(TrialRecord.shown)
        .where(*trial_conditions(filters))
        .group_by(TrialRecord.configuration_id)
    )
    tried = of_configurations.subquery("tried")
    group = ConfigurationRecord.group_id
    n, mean, standing = estimate_from(tried)
    best = best_first(standing, mean, ConfigurationRecord.hash)
    ranked = (
        select(
            tried.c.id,
            n.label("n"),
            mean.label("mean"),
            standing.label("standing"),
            ConfigurationRecord.hash,
            func.row_number().over(partition_by=group, order_by=best).label("position"),
            func.sum(tried.c.trials).over(partition_by=group).label("trials"),
            func.sum(tried.c.gpu_seconds).over(partition_by=group).label("gpu_seconds"),
            _choose_rivals(
                func.sum(case((standing == ESTIMATED, 1), else_=0)).over(partition_by=group),
                func.sum(tried.c.searched).over(partition_by=group),
            ),
        )
        .join(ConfigurationRecord, ConfigurationRecord.id == tried.c.id)
        .join(ConfigurationRecord.group)
        .where(*group_conditions(filters))
        .subquery("ranked")
    )
    columns = ranked.c.id, ranked.c.trials, ranked.c.gpu_seconds, ranked.c.rivals
    query = select(*columns).where(ranked.c.n > 0)
    if not per_configuration:
        return query.where(ranked.c.position == 1)
    best = best_first(ranked.c.standing, ranked.c.mean, ranked.c.hash)
    return query.order_by(*best).limit(limit)


def read_catalogue(session: Session) -> dict[str, list[str]]:
    """The values that filters take: the known methods, backbones, sweeps, tags and machines."""

    def values(column: InstrumentedAttribute[str], *conditions: ColumnElement[bool]) -> set[str]:
        return {*session.scalars(select(column).where(*conditions).distinct())}

    written = AnnotationRecord
    tags = values(written.word, written.field == "tag", written.stands.is_(True))
    known = {
        "backbones": values(GroupRecord.backbone),
        "methods": values(GroupRecord.method),
        "sweeps": values(SweepRecord.name),
        "tags": values(SweepTagRecord.tag) | tags,
        "hardware": values(MachineRecord.hardware) | values(MachineRecord.host),
    }
    return {name: sorted(names) for name, names in known.items()}


def refuse_unknown_names(
    filters: Filters, known: Mapping[str, Collection[str]], published: Sequence[PublishedRow]
) -> None:
    """Refuse filters that name nothing known, which may be typing errors.

    `known` are the leaderboard's own, as `read_catalogue` returns them. A method or backbone is
    also known if this package or one of the published rows has it. Raises NotFoundError.
    """
    require_filters(filters)

    def refuse(kind: str, name: str, others: Collection[str] = ()) -> None:
        names = known[kind if kind == "hardware" else f"{kind}s"]
        if name not in {*names, *others}:
            meant = did_you_mean(name.lower(), names) or did_you_mean(name.lower(), sorted(others))
            if "," in name:
                meant = f"; name one {kind}, as only backbones can be several"
            raise NotFoundError(
                f"there is no {kind} {name!r} (on this leaderboard: "
                f"{', '.join(names) or 'none yet'}){meant}"
            )

    if filters.sweep is not None:
        refuse("sweep", filters.sweep)
    if filters.tag is not None:
        refuse("tag", filters.tag)
    if (part := filters.hardware) is not None:
        refuse("hardware", part, [part] * any(part.lower() in x.lower() for x in known["hardware"]))
    if filters.method is not None:
        methods = {*available_methods(), *(row.method for row in published)}
        refuse("method", filters.method, methods)
    for name in backbones_in(filters.backbone or ""):
        from cse_methods.encoders.backbones import resolve_backbone  # imports pyarrow

        try:
            resolve_backbone(name)
        except BackboneError:
            refuse("backbone", name, {row.backbone for row in published})
