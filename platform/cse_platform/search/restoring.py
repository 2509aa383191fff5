"""Restore the trials of a study from the journal, or in memory from the leaderboard's rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState, create_trial

from cse_platform.leaderboard.records import TrialSummary
from cse_platform.leaderboard.searches import SearchHistory
from cse_platform.search.distributions import build_distribution, decode
from cse_platform.search.failures import FAILURE_CAUSE, RETRY_OF
from cse_platform.search.proposals import FIXED, ProposedPoints
from cse_platform.sweep.objectives import DEV_VALUE, compute_excesses, measure
from cse_platform.sweep.space.dimensions import encode
from cse_platform.sweep.space.space import Space, find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory

CLOSED = "closed"
"""User attribute with the reason why a proposed trial was not run."""
SEED = "seed"
"""User attribute with the seed of a trial that repeats a configuration."""
REQUEST = "request"
"""User attribute with the request by which a person enqueued a trial."""


def restore_trials(
    history: History, spec: SweepSpec, points: ProposedPoints, *, first: int
) -> Iterator[FrozenTrial]:
    """Yield the trials of a study from the journal, from number `first` to the last started one.

    A number that is not in the journal was proposed and never run. By its values a trial is matched
    to a start point or to the request that enqueued it.
    """
    attempts = history.attempts
    params = {number: encode_values(attempts[number], spec) for number in sorted(attempts)}
    starts = _match_trials(enumerate(points), params)
    requests = _match_trials(history.enqueued.items(), params)
    latest: dict[int, int] = {}
    for number in range(max(attempts, default=-1) + 1):
        if number not in attempts:
            if number >= first:
                yield create_trial(state=TrialState.FAIL, user_attrs={CLOSED: "it was not started"})
            continue
        user: dict[str, Any] = {REQUEST: requests[number]} if number in requests else {}
        if (former := latest.get(attempts[number].number)) is not None:
            user[RETRY_OF] = former
        latest[attempts[number].number] = number
        if number >= first:
            fixed = (
                {n: encode(v) for n, v in points[starts[number]].items()}
                if number in starts
                else None
            )
            yield _restore_trial(attempts[number], spec, params[number], user, fixed)


def encode_values(trial: TrialHistory, spec: SweepSpec) -> dict[str, Any]:
    """Encode the searched values of a trial for Optuna's storage, parents first."""
    values = trial.searched_values
    return {
        name: encode(find_value(spec.space, spec.method, name, values[name]))
        for name in spec.space.ordered()
        if name in values
    }


def matches_journal(trials: Iterable[FrozenTrial], history: History, spec: SweepSpec) -> bool:
    """Whether a study can belong to a journal, where its trials must have the same values."""
    for trial in trials:
        attempt = history.attempts.get(trial.number)
        if attempt is None:
            if trial.state.is_finished() and CLOSED not in trial.user_attrs:
                return False
        elif trial.state != TrialState.WAITING:
            stored = {
                name: decode(spec.space[name], v)
                for name, v in trial.params.items()
                if name in spec.space
            }
            if {name: encode(v) for name, v in stored.items()} != encode_values(attempt, spec):
                return False
    return True


def explain_closing(trial: TrialHistory, spec: SweepSpec) -> str | None:
    """Explain why the study does not run a proposed trial; None if it does.

    With `seeds.repeats` the study contains every seed of the search, otherwise only the first.
    """
    if trial.role != "repeat" or spec.seeds.repeats:
        return None
    return f"proposed before; run with seed {trial.seed} instead"


def read_final_values(trial: TrialHistory, spec: SweepSpec) -> list[float]:
    """Read the final value of a complete trial for each objective."""
    names = [objective.name for objective in spec.search.objectives] or [DEV_VALUE]
    values = (measure(trial, name) for name in names)
    return [value for value in values if value is not None]


def _match_trials(
    wanted: Iterable[tuple[Any, Mapping[str, Any]]], params: Mapping[int, Mapping[str, Any]]
) -> dict[int, Any]:
    """Match each set of wanted values to one trial that has them. Returns the names by number."""
    claimed: dict[int, Any] = {}
    for name, values in wanted:
        asked = {key: encode(value) for key, value in values.items()}
        for number, known in params.items():
            if number not in claimed and asked.items() <= known.items():
                claimed[number] = name
                break
    return claimed


def _restore_trial(
    trial: TrialHistory,
    spec: SweepSpec,
    params: dict[str, Any],
    user: dict[str, Any],
    fixed: dict[str, Any] | None,
) -> FrozenTrial:
    why = explain_closing(trial, spec)
    state = TrialState.FAIL if why else TrialState[trial.state]
    if why:
        user = {**user, CLOSED: why}
    elif trial.state == "FAIL":
        user = {**user, FAILURE_CAUSE: trial.cause}
    if trial.role == "repeat" and not why:
        user = {**user, SEED: trial.seed}
    ended = not why and trial.state in ("COMPLETE", "PRUNED")
    restored = create_trial(
        state=state,
        values=read_final_values(trial, spec) if ended and trial.state == "COMPLETE" else None,
        params=params,
        distributions={name: build_distribution(spec.space[name]) for name in params},
        user_attrs=user,
        system_attrs={} if fixed is None else {FIXED: fixed},
        intermediate_values={} if why or spec.search.objectives else dict(trial.kept),
        constraints=(compute_excesses(spec.search.constraints, [trial]) or None) if ended else None,
    )
    restored.datetime_start = convert_to_local(trial.started)
    if state.is_finished():
        restored.datetime_complete = convert_to_local(trial.finished or trial.started)
    return restored


def convert_to_local(time: datetime) -> datetime:
    """Convert a time to local time without a zone, as Optuna stores it."""
    return time.astimezone().replace(tzinfo=None)


NUMBER = "number"


@dataclass(frozen=True)
class Replay:
    """A rebuilt study, and the number of trials that do not fit into it."""

    study: optuna.Study
    left_out: int
    """Number of ended trials with a value that is not in the space."""


def replay_study(history: SearchHistory, *, factor: float = 1.0) -> Replay:
    """Rebuild a study in memory from a search's ended trials, with dev scores times `factor`.

    Confirmation seeds are left out. The study numbers its trials from 0; `list_trial_numbers` maps
    them to the sweep's. The search store is not needed, so merged leaderboards work, too.
    """
    ended = [t for t in history.trials if t.role == "search" and t.state != "RUNNING"]
    frozen = [_replay_trial(trial, history.space, history.method, factor) for trial in ended]
    known = [trial for trial in frozen if trial is not None]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    study.add_trials(known)
    return Replay(study, left_out=len(ended) - len(known))


def list_trial_numbers(study: optuna.Study) -> list[int]:
    """List the sweep's trial numbers of a replayed study, in the study's order."""
    return [trial.user_attrs[NUMBER] for trial in study.get_trials(deepcopy=False)]


def _replay_trial(
    trial: TrialSummary, space: Space, method: str, factor: float
) -> FrozenTrial | None:
    """Build a trial; None if a value is not in the space. With an empty space it has no values."""
    params: dict[str, Any] = {}
    for name, value in trial.values.items() if len(space) else ():
        try:
            params[name] = encode(find_value(space, method, name, value))
        except LookupError:
            return None
    complete = trial.state == "COMPLETE" and trial.value is not None
    return create_trial(
        state=TrialState[trial.state],
        value=factor * trial.value if complete and trial.value is not None else None,
        params=params,
        distributions={name: build_distribution(space[name]) for name in params},
        user_attrs={NUMBER: trial.number},
    )
