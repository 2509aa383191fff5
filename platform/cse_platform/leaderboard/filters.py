"""The filters of a leaderboard in SQL, and the refusal of those that name nothing."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, Select, and_, false, or_, select, union

from cse_methods.errors import BackboneError
from cse_methods.published.released import SCORED_BY, names_of_released
from cse_methods.registry import available_methods
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.published.rows import PublishedRow
from cse_platform.leaderboard.records import Filters, backbones_in
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
    if filters.hardware is not None:
        named = or_(
            MachineRecord.hardware.icontains(filters.hardware, autoescape=True),
            MachineRecord.host.icontains(filters.hardware, autoescape=True),
        )
        conditions.append(AttemptRecord.machine_id.in_(select(MachineRecord.id).where(named)))
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


def refuse_unknown_names(
    filters: Filters, known: Mapping[str, Collection[str]], published: Sequence[PublishedRow]
) -> None:
    """Refuse filters that name no known method, backbone or sweep, which may be typing errors.

    `known` are the leaderboard's own, as `read_catalogue` returns them. A method or backbone is
    also known if this package or one of the published rows has it. Raises NotFoundError.
    """
    require_filters(filters)

    def refuse(kind: str, name: str, others: Collection[str]) -> None:
        here = known[f"{kind}s"]
        if name not in {*here, *others}:
            raise NotFoundError(
                f"there is no {kind} {name!r} (on this leaderboard: "
                f"{', '.join(here) or 'none yet'})"
                f"{did_you_mean(name.lower(), sorted({*here, *others}))}"
            )

    if filters.sweep is not None:
        refuse("sweep", filters.sweep, ())
    if filters.method is not None:
        methods = {*available_methods(), *(row.method for row in published)}
        refuse("method", filters.method, methods)
    for name in backbones_in(filters.backbone or ""):
        from cse_methods.encoders.backbones import resolve_backbone  # imports pyarrow

        try:
            resolve_backbone(name)
        except BackboneError:
            refuse("backbone", name, {row.backbone for row in published})
