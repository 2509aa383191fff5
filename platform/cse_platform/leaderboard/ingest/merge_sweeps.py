"""Merges the sweeps of another leaderboard, matched by name.

Different sweeps that share a name are refused.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from cse_platform.errors import ImportRefusedError
from cse_platform.leaderboard.ingest.sweep_events import add_gpu_seconds, add_sweep_trials
from cse_platform.leaderboard.ingest.upserts import insert_missing
from cse_platform.leaderboard.tables import (
    DriverMessageRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTagRecord,
    SweepTrialRecord,
)
from cse_platform.sweep.blocks import slug_problem
from cse_platform.sweep.identity import find_changes
from cse_platform.sweep.problems import did_you_mean, format_value

OVERWRITTEN = ("spec", "state", "finished", "journal", "ended_by")
"""Columns that are taken from the side that started the sweep last."""

LINK = [column for column in SweepTrialRecord.__table__.c if column.key != "sweep_id"]


@dataclass(frozen=True)
class SweepPair:
    """A sweep of the other leaderboard, and its name here."""

    theirs: SweepRecord
    name: str


def match_sweeps(ours: Session, theirs: Session, rename: Mapping[str, str]) -> list[SweepPair]:
    """Pair every sweep of the other leaderboard with its name on this one.

    Raises:
        ImportRefusedError: lists the sweeps that differ from ours of the same name, or those whose
            names are invalid, or says what is wrong with the new names.
    """
    there = theirs.scalars(select(SweepRecord).order_by(SweepRecord.id)).all()
    _check_rename(rename, [sweep.name for sweep in there])
    pairs = [SweepPair(sweep, rename.get(sweep.name, sweep.name)) for sweep in there]
    _check_names([pair.name for pair in pairs])
    here = _map_sweeps_by_name(ours)
    problems = [
        f"{pair.name}: {differences}"
        for pair in pairs
        if pair.name in here
        and (differences := _describe_differences(here[pair.name], pair.theirs))
    ]
    if problems:
        refused = (
            f"{len(problems)} of the {len(pairs)} sweeps there are not the sweep of that name "
            "here; take each under another name, --rename NAME=NEWNAME:"
        )
        raise ImportRefusedError("\n  ".join([refused, *problems]))
    return pairs


def merge_sweeps(
    ours: Session, theirs: Session, pairs: list[SweepPair]
) -> tuple[dict[int, int], int]:
    """Merge the sweeps, their starts and tags, and the messages of their drivers.

    The side that started a sweep last decides its state. Returns our ids by their ids, and the
    number of new sweeps.
    """
    before = _find_last_starts(ours)
    rows = [_make_sweep_row(pair) for pair in pairs]
    new = insert_missing(ours, SweepRecord, ["name"], rows)
    here, there = _map_sweeps_by_name(ours), _find_last_starts(theirs)
    ids = {}
    for pair in pairs:
        mine = here[pair.name]
        ids[pair.theirs.id] = mine.id
        mine.started = min(mine.started, pair.theirs.started)
        known = mine.id in before
        if not known or _make_stage_key(pair.theirs, there) > _make_stage_key(mine, before):
            for name in OVERWRITTEN:
                setattr(mine, name, _make_sweep_row(pair)[name])
            _replace_tags(ours, theirs, pair.theirs.id, mine.id)
    _add_rows(ours, theirs, ids, SweepStartRecord, ["sweep_id", "started"])
    _add_rows(ours, theirs, ids, DriverMessageRecord, ["journal", "position"])
    return ids, new


def merge_sweep_trials(
    ours: Session, theirs: Session, sweeps: Mapping[int, int], trials: Mapping[int, int]
) -> None:
    """Add trials to their sweeps, with the GPU seconds that each took there.

    `sweeps` and `trials` map their ids to ours.
    """
    query = select(SweepTrialRecord.sweep_id.label("sweep"), *LINK)
    query = query.where(SweepTrialRecord.trial_id.in_(trials)).order_by(SweepTrialRecord.number)
    links: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in theirs.execute(query).mappings():
        link = {**row, "trial_id": trials[row["trial_id"]]}
        links[link.pop("sweep")].append(link)
    for there, some in sorted(links.items()):
        took = {link["trial_id"]: link.pop("gpu_seconds") for link in some}
        add_sweep_trials(ours, sweeps[there], some, beyond=_find_last_number(theirs, there))
        add_gpu_seconds(ours, sweeps[there], took)


def _find_last_number(session: Session, sweep: int) -> int:
    numbers = select(func.max(SweepTrialRecord.number)).where(SweepTrialRecord.sweep_id == sweep)
    return session.scalar(numbers) or 0


def _check_rename(rename: Mapping[str, str], names: list[str]) -> None:
    for name in rename:
        if name not in names:
            known = did_you_mean(name, names) or f"; there are {', '.join(names) or 'none'}"
            raise ImportRefusedError(f"--rename {name}: no sweep of that name is there{known}")
    given = [rename.get(name, name) for name in names]
    if twice := sorted({name for name in given if given.count(name) > 1}):
        raise ImportRefusedError(
            f"--rename gives two sweeps the name {', '.join(twice)}; give each one of its own"
        )


def _check_names(names: list[str]) -> None:
    problems = [f"{format_value(name)}: {text}" for name in names if (text := slug_problem(name))]
    if problems:
        refused = (
            "sweeps there have names that none here can have; --rename NAME=NEWNAME gives others:"
        )
        raise ImportRefusedError("\n  ".join([refused, *problems]))


def _describe_differences(mine: SweepRecord, other: SweepRecord) -> str:
    """List the differences of two sweeps in one line; empty if they are the same sweep."""
    here, there = (
        {**sweep.spec, "method": sweep.method, "backbone": sweep.backbone}
        for sweep in (mine, other)
    )
    return "; ".join(
        f"{path} = {format_value(before)} here, {format_value(after)} there"
        for path, before, after in find_changes(here, there)
    )


def _map_sweeps_by_name(session: Session) -> dict[str, SweepRecord]:
    return {sweep.name: sweep for sweep in session.scalars(select(SweepRecord))}


def _make_sweep_row(pair: SweepPair) -> dict[str, object]:
    sweep = pair.theirs
    named = {"sweep": pair.name} if "sweep" in sweep.spec else {}
    names = ("method", "backbone", "state", "started", "finished", "journal", "ended_by")
    copied = {name: getattr(sweep, name) for name in names}
    return {**copied, "name": pair.name, "spec": {**sweep.spec, **named}}


Stage = tuple[datetime, bool, datetime]


def _make_stage_key(sweep: SweepRecord, starts: Mapping[int, datetime]) -> Stage:
    """Return a sort key of how far a sweep had come on its leaderboard: last start, then end."""
    start = starts.get(sweep.id, sweep.started)
    return start, sweep.finished is not None, sweep.finished or start


def _find_last_starts(session: Session) -> dict[int, datetime]:
    last = func.coalesce(func.max(SweepStartRecord.started), SweepRecord.started)
    query = (
        select(SweepRecord.id, last.label("last"))
        .outerjoin(SweepStartRecord, SweepStartRecord.sweep_id == SweepRecord.id)
        .group_by(SweepRecord.id)
    )
    return {row.id: row.last for row in session.execute(query)}


def _replace_tags(ours: Session, theirs: Session, there: int, here: int) -> None:
    ours.execute(delete(SweepTagRecord).where(SweepTagRecord.sweep_id == here))
    tags = theirs.scalars(select(SweepTagRecord.tag).where(SweepTagRecord.sweep_id == there))
    rows = [{"sweep_id": here, "tag": tag} for tag in tags]
    insert_missing(ours, SweepTagRecord, ["sweep_id", "tag"], rows)


def _add_rows(
    ours: Session,
    theirs: Session,
    ids: Mapping[int, int],
    table: type[SweepStartRecord] | type[DriverMessageRecord],
    keys: list[str],
) -> None:
    """Copy the rows of these sweeps in one table; `ids` maps their sweep ids to ours."""
    for there, here in ids.items():
        query = select(*table.__table__.c).where(table.sweep_id == there)
        rows = [{**row, "sweep_id": here} for row in theirs.execute(query).mappings()]
        insert_missing(ours, table, keys, rows)
