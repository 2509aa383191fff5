"""Send requests to a sweep, checked against what is stored, and receive them in its driver.

The leaderboard carries requests, so they can be sent from any machine that reaches it.
"""

import shlex
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from cse_platform.errors import StoreError, SweepRefusedError
from cse_platform.leaderboard.sweeps import read_sweep
from cse_platform.leaderboard.trials import (
    MADE_IN_SWEEP,
    find_sweep_and_number,
    read_trials,
    select_trials,
)
from cse_platform.presentation.sweeps import GOES_ON
from cse_platform.stores.sql.lease import add_request, waiting_requests
from cse_platform.stores.sql.store import HANG_SECONDS, Store, open_store
from cse_platform.stores.sql.tables import (
    AttemptRecord,
    SweepLeaseRecord,
    SweepRecord,
    SweepRequestRecord,
    SweepStartRecord,
    SweepTrialRecord,
    find_sweep,
)
from cse_platform.sweep.file import OverrideError, read_setting
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import point_to_try
from cse_platform.sweep.stores import JOURNAL_FILE
from cse_platform.tracking.events import UNCHECKED_DATA, SweepAction, SweepRequested
from cse_platform.tracking.journal import refuse_deleted

_TAKES = {"stop": ("RUNNING",), "retry": ("FAIL", "PRUNED")}
"""The states of single trials to which each action applies."""
LISTEN_SECONDS = 1.0
"""Seconds between two looks of a driver for requests."""


def send_request(
    url: str,
    reference: str,
    action: SweepAction,
    *,
    numbers: Sequence[int] = (),
    settings: Sequence[str] = (),
    at_most: int | None = None,
) -> str:
    """Leave a request for a sweep's current or next driver. Returns a sentence on who will get it.

    `reference` is a sweep, or one of its trials, as SWEEP#N or by its key. `numbers` are further
    trials, `settings` (`NAME=VALUE`) are values to enqueue, and `at_most` is the limit of trials at
    once, None for none. Raises SweepRefusedError if the sweep's state does not allow the request,
    or if there is no configuration to enqueue, or the sweep has or awaits it, or the same retry;
    NotFoundError if there is no such sweep or trial; and JournalError if its journal is on this
    machine and being deleted.
    """
    with open_store(url, create=False) as board:
        with board.session() as session:
            sweep, number = find_sweep_and_number(session, reference)
            numbers = [*numbers, *([] if number is None else [number])]
            stored, lease = find_sweep(session, sweep), session.get(SweepLeaseRecord, sweep)
            if (source := stored.spec.get("source")) in UNCHECKED_DATA:
                raise SweepRefusedError(f"sweep {sweep!r} was {source}, so nothing runs it")
            overview = read_sweep(session, sweep)
            columns = SweepTrialRecord.number, AttemptRecord.state
            query = select_trials(*columns, attempt=MADE_IN_SWEEP)
            rows = session.execute(query.where(SweepTrialRecord.sweep_id == stored.id))
            states = {row.number: row.state for row in rows}
            starts = select(SweepStartRecord.provenance).order_by(SweepStartRecord.started.desc())
            start = session.scalars(starts.where(SweepStartRecord.sweep_id == stored.id)).first()
            waiting = waiting_requests(session, sweep)
        holder = overview.holder if overview.holder and overview.holder.lives else None
        if holder is None and lease is not None and lease.folder:
            refuse_deleted(Path(lease.folder) / JOURNAL_FILE)
        if number is not None and action not in _TAKES:
            raise SweepRefusedError(f"{reference!r} is a trial; {action} takes a sweep: {sweep}")
        if action == "stop" and holder is None:
            raise SweepRefusedError(
                f"no driver runs sweep {sweep!r} on this leaderboard; its state is {overview.state}"
            )
        if action == "limit" and holder is None:
            raise SweepRefusedError(
                f"sweep {sweep!r} is not running, and its next start goes by its file: set "
                "resources.at_most there"
            )
        _refuse_other_trials(sweep, states, action, numbers, is_run=holder is not None)
        if action == "retry":
            _refuse_repeated_retry(sweep, numbers, waiting)
        if action == "enqueue" and not settings:
            raise SweepRefusedError("enqueue takes the value of at least one hyperparameter")
        values = dict[str, Any]()
        if settings:
            spec, values = _read_values(stored, settings)
            with board.session() as session:
                _refuse_repetition(session, stored, spec, values, is_run=holder is not None)
        request = SweepRequested(
            sweep=sweep,
            request=str(uuid4()),
            action=action,
            who=board.name_writer(),
            numbers=tuple(numbers),
            values=values,
            at_most=at_most,
        )
        add_request(board, request)
    if holder is not None:
        return f"sent to process {holder.pid} on {holder.host}, which runs the sweep"
    last = start or {}  # the command of its last start, as far as it is recorded
    change_folder = f"cd {shlex.quote(last['folder'])} && " if "folder" in last else ""
    command = f"{change_folder}{last.get('command', 'cse-sweep FILE')}"
    return f"sweep {sweep!r} is not running; its next start will do this: {command}"


def _refuse_other_trials(
    sweep: str,
    states: Mapping[int, str],
    action: SweepAction,
    numbers: Sequence[int],
    *,
    is_run: bool,
) -> None:
    for number in numbers:
        if number not in states:
            raise SweepRefusedError(f"sweep {sweep!r} has no trial {number}")
        if states[number] not in _TAKES[action]:
            expected = " or ".join(_TAKES[action])
            raise SweepRefusedError(
                f"trial {number} of sweep {sweep!r} is "
                f"{_name_state(states[number], is_run=is_run)}; {action} takes a trial that is "
                f"{expected}"
            )
    if action == "retry" and not numbers and "FAIL" not in states.values():
        raise SweepRefusedError(
            f"no trial of sweep {sweep!r} has failed; cse-sweep retry {sweep} NUMBER tries a "
            "pruned one again"
        )


def _name_state(state: str, *, is_run: bool) -> str:
    """Name the state of a trial of a sweep that a driver runs now, or not, as `status` does."""
    return GOES_ON if state == "RUNNING" and not is_run else state


def _refuse_repeated_retry(
    sweep: str, numbers: Sequence[int], waiting: Iterable[SweepRequested]
) -> None:
    """Raise SweepRefusedError if a waiting request retries one of these trials, or, as this one
    does, all that failed.
    """
    for request in waiting:
        if request.action != "retry":
            continue
        if again := {*numbers} & {*request.numbers}:
            raise SweepRefusedError(
                f"a retry of trial {min(again)} of sweep {sweep!r} waits already"
            )
        if not (numbers or request.numbers):
            raise SweepRefusedError(
                f"a retry of the failed trials of sweep {sweep!r} waits already"
            )


def _read_values(stored: SweepRecord, settings: Sequence[str]) -> tuple[SweepSpec, dict[str, Any]]:
    """Read a sweep's file and values to enqueue. Raises SweepRefusedError if it cannot try them."""
    try:
        values = dict(map(read_setting, settings))
        spec = SweepSpec.model_validate(stored.spec)
    except OverrideError as error:
        raise SweepRefusedError(f"--set: {error}") from None
    except ValidationError:
        raise SweepRefusedError(
            f"the file of sweep {stored.name!r} is unknown: another version ran it, or it was "
            "imported"
        ) from None
    return spec, point_to_try(spec, values)


def _refuse_repetition(
    session: Session,
    stored: SweepRecord,
    spec: SweepSpec,
    values: Mapping[str, Any],
    *,
    is_run: bool,
) -> None:
    """Raise SweepRefusedError if the sweep has or awaits the configuration that the values make.

    It would be trained with another seed, which a person chose and not the search. Values that
    leave something to the sampler make no certain configuration.
    """
    if not all(name in values or spec.space.is_excluded(name, values) for name in spec.space):
        return
    settings = spec.config(values).hyperparameters()  # a None can be left out of them
    searched = {name: settings.get(name) for name in values}
    of_sweep = SweepTrialRecord.sweep_id == stored.id
    for trial in read_trials(session, of_sweep, space=spec.space, attempt=MADE_IN_SWEEP):
        if searched == {name: trial.searched_values.get(name) for name in searched}:
            way_out = "seeds.confirm in its file runs further seeds of the best"
            if trial.state in _TAKES["retry"]:
                way_out = f"cse-sweep retry {stored.name} {trial.number} tries it again"
            raise SweepRefusedError(
                f"trial {trial.number} of sweep {stored.name!r} has this configuration, and is "
                f"{_name_state(trial.state, is_run=is_run)}; {way_out}"
            )
    query = select(SweepRequestRecord.event).where(SweepRequestRecord.sweep == stored.name)
    for event in session.scalars(query):
        if event["action"] == "enqueue" and event.get("values") == values:
            raise SweepRefusedError(
                f"this configuration waits already; sweep {stored.name!r} tries it next"
            )


class Requests:
    """Receives requests to a sweep: a thread polls the leaderboard until `close`.

    A request stays in the leaderboard until the driver's journal, which records it, has reached the
    leaderboard; a driver that starts before then receives it again. While the leaderboard is down
    nothing is received.
    """

    def __init__(self, leaderboard: Store, sweep: str) -> None:
        self._leaderboard, self._sweep = leaderboard, sweep
        self._heard: deque[SweepRequested] = deque()
        self._known: set[str] = set()
        self._closing = threading.Event()
        self._fetch_requests()

        def listen_until_closed() -> None:
            while not self._closing.wait(LISTEN_SECONDS):
                self._fetch_requests()

        self._thread = threading.Thread(target=listen_until_closed, name="requests", daemon=True)
        self._thread.start()

    def take(self) -> Iterator[SweepRequested]:
        """Yield the requests received since the last call."""
        while self._heard:
            yield self._heard.popleft()

    def close(self) -> None:
        """Stop polling the leaderboard; a second call does nothing."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join(timeout=HANG_SECONDS)

    def _fetch_requests(self) -> None:
        with suppress(StoreError):
            with self._leaderboard.session() as session:
                waiting = waiting_requests(session, self._sweep)
            self._heard += [request for request in waiting if request.request not in self._known]
            self._known |= {request.request for request in waiting}
