"""Check requests to a sweep against what is stored, and leave them for its driver.

The leaderboard carries requests, so they can be sent from any machine that reaches it.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError
from sqlalchemy import select

from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.trials import find_place
from cse_platform.stores.sql.lease import lease_owners
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.stores.sql.sweep_events import add_request
from cse_platform.stores.sql.tables import (
    SweepLeaseRecord,
    SweepRecord,
    SweepStartRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.file import OverrideError, read_setting
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import point_to_try
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking.events import SweepAction, SweepRequested
from cse_platform.tracking.journal import refuse_deleted

_TAKES = {"stop": ("RUNNING",), "retry": ("FAIL", "PRUNED")}
"""The states of single trials to which each action applies."""
_SHOWN = 8
"""Maximum number of pruned trials that a refusal lists."""


def send_request(
    url: str,
    reference: str,
    action: SweepAction,
    *,
    numbers: Sequence[int] = (),
    settings: Sequence[str] = (),
) -> str:
    """Leave a request for a sweep's current or next driver. Returns a sentence on who will get it.

    `reference` is a sweep, or one of its trials, as SWEEP#N or by its key. `numbers` are further
    trials, and `settings` (`NAME=VALUE`) are values to enqueue. Raises SweepRefusedError if the
    sweep's state does not allow the request, NotFoundError if there is no such sweep or trial, and
    JournalError if its journal is on this machine and being deleted.
    """
    with open_store(url, create=False) as board:
        with board.session() as session:
            sweep, number = find_place(session, reference)
            numbers = [*numbers, *([] if number is None else [number])]
            stored, lease = find_sweep(session, sweep), session.get(SweepLeaseRecord, sweep)
            owner = lease_owners(session, sweep).get(sweep)
            query = select(SweepTrialRecord.number, TrialRecord.state).join(SweepTrialRecord.trial)
            rows = session.execute(query.where(SweepTrialRecord.sweep_id == stored.id))
            states = {row.number: row.state for row in rows}
            starts = select(SweepStartRecord.provenance).order_by(SweepStartRecord.started.desc())
            start = session.scalars(starts.where(SweepStartRecord.sweep_id == stored.id)).first()
        holder = owner if owner is not None and owner.lives else None
        if holder is None and lease is not None and lease.folder:
            refuse_deleted(Path(lease.folder) / JOURNAL_FILE)
        if number is not None and action not in _TAKES:
            raise SweepRefusedError(f"{reference!r} is a trial; {action} takes a sweep: {sweep}")
        if action == "stop" and holder is None:
            raise SweepRefusedError(f"sweep {sweep!r} is not running; it is {stored.state}")
        _refuse_other_trials(sweep, states, action, numbers)
        values: dict[str, Any] = {}
        if settings:
            try:
                values = dict(map(read_setting, settings))
            except OverrideError as error:
                raise SweepRefusedError(f"--set: {error}") from None
            values = point_to_try(_parse_spec(stored), values)
        request = SweepRequested(
            sweep=sweep,
            request=str(uuid4()),
            action=action,
            who=board.name_writer(),
            numbers=tuple(numbers),
            values=values,
        )
        add_request(board, request)
    if holder is not None:
        return f"asked process {holder.pid} on {holder.host}, which runs it"
    last = start or {}  # the command of its last start, as far as it is recorded
    where = f"cd {shlex.quote(last['folder'])} && " if "folder" in last else ""
    command = f"{where}{last.get('command', 'cse-sweep FILE')}"
    return f"sweep {sweep!r} is not running; its next start will do this: {command}"


def _refuse_other_trials(
    sweep: str, states: Mapping[int, str], action: SweepAction, numbers: Sequence[int]
) -> None:
    for number in numbers:
        if number not in states:
            raise SweepRefusedError(f"sweep {sweep!r} has no trial {number}")
        if states[number] not in _TAKES[action]:
            wanted = " or ".join(_TAKES[action])
            raise SweepRefusedError(
                f"trial {number} of sweep {sweep!r} is {states[number]}; {action} takes a trial "
                f"that is {wanted}"
            )
    if action == "retry" and not numbers and "FAIL" not in states.values():
        pruned = sorted(number for number, state in states.items() if state == "PRUNED")
        shown = " ".join(map(str, pruned[:_SHOWN])) + (" …" if len(pruned) > _SHOWN else "")
        raise SweepRefusedError(
            f"no trial of sweep {sweep!r} has failed"
            + (
                f"; to retry pruned ones, name them: cse-sweep retry {sweep} {shown}"
                if shown
                else ""
            )
        )


def _parse_spec(sweep: SweepRecord) -> SweepSpec:
    try:
        return SweepSpec.model_validate(sweep.spec)
    except ValidationError:
        raise SweepRefusedError(
            f"the file of sweep {sweep.name!r} is not known: another version ran it, or it was "
            "imported"
        ) from None
