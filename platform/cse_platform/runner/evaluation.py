"""Score the trials that `evaluate:` selects on dev; test sets are opened only here."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ray

from cse_methods.data.source import source_name
from cse_methods.referenced_tasks.snapshots import with_snapshots
from cse_methods.tasks import Tasks
from cse_platform.errors import SweepRefusedError
from cse_platform.presentation.evaluation import describe_missing
from cse_platform.runner.failures import one_line
from cse_platform.runner.model_tasks import score_kept_model
from cse_platform.runner.ray_process import OwnRayLost, check_own
from cse_platform.runner.state import SweepState
from cse_platform.search.confirmation import plan_scoring
from cse_platform.sweep.identity import training_data
from cse_platform.tracking.history import TrialHistory
from cse_platform.tracking.packing import evaluation_event

if TYPE_CHECKING:
    from cse_methods.evaluation.results import Evaluation


def evaluate_selected(state: SweepState, *, apply_requests: Callable[[], None]) -> None:
    """Score the trials selected on dev, in processes that train nothing, and record the scores.

    `apply_requests` is called every second. Trials that are already scored are skipped. Each
    opening of a test set is recorded before it happens. A message says what got no value.

    Raises SweepRefusedError if a trial could not be scored, after all others have been scored, and
    if a Ray that this process started dies.
    """
    spec = state.spec
    if spec.evaluate is None:
        return
    tasks = with_snapshots(spec.evaluate.parsed_tasks)
    scoring = plan_scoring(state.history, spec, tasks)
    if not (chosen := scoring.chosen):
        return  # no trial is complete
    waiting = scoring.waiting
    for note in scoring.notes():
        state.send_message(note)
    state.scored = (len(chosen) - len(waiting), len(chosen))
    problems, missing = list[str](), defaultdict[str, list[int]](list)
    for trial in waiting:
        if trial.model is None:
            why = "its model was not kept"
            if trial.model_deleted:
                why = (
                    "its model was deleted when the sweep completed; train it again in another "
                    "sweep (--set sweep=NEWNAME), with `keep: {models: all}` to keep all models"
                )
            problems.append(f"trial {trial.number}: {why}")
    kept = [trial for trial in waiting if trial.model is not None]
    for trial, evaluation in _score_models(state, kept, tasks, apply_requests):
        if isinstance(evaluation, Exception):
            problems.append(f"trial {trial.number}: {one_line(evaluation)}")
            continue
        event = evaluation_event(
            sweep=spec.sweep,
            trial=trial.key,
            evaluation=evaluation,
            source=source_name(spec.data),
            settings=scoring.settings,
        )
        state.record(event)
        missing[describe_missing(evaluation)].append(trial.number)
        state.scored = (state.scored[0] + 1, state.scored[1])
    for text, numbers in missing.items():
        if text:
            shown = f"trial{'s' * (len(numbers) > 1)} {' '.join(map(str, sorted(numbers)))}"
            state.send_message(f"evaluate, {shown}: no value: {text}")
    if problems:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} could not be scored on its test sets: {'; '.join(problems)}; "
            "run the same command to try these trials again, or remove `evaluate:` to complete "
            "the sweep"
        )


def _score_models(
    state: SweepState,
    trials: Sequence[TrialHistory],
    tasks: Tasks,
    apply_requests: Callable[[], None],
) -> Iterator[tuple[TrialHistory, "Evaluation | Exception"]]:
    """Score the kept models of trials, several at once. Yields the scores of each, or its error.

    It is never done in a trial's process, where test sets are closed.

    Raises SweepRefusedError if a Ray that this process started dies.
    """
    spec = state.spec
    assert spec.evaluate is not None
    # Ray ends a process that had a GPU after its task, which frees the memory; without one the
    # next evaluation reuses it.
    placement = {} if state.nodes is None else state.nodes.task_options
    slot = spec.resources
    task = ray.remote(num_cpus=slot.cpu, num_gpus=slot.gpu, **placement)(score_kept_model)
    unbegun, running = deque(trials), dict[Any, TrialHistory]()
    while unbegun or running:
        while unbegun and len(running) < (state.history.at_most or len(trials)):
            trial = unbegun.popleft()
            if tasks.opens_tests:
                state.record_test_access(trial.key, tasks)
            training = training_data(spec.model_dump(mode="json"), trial.values)
            arguments = tasks, training, spec.data, spec.evaluate.slicing_length, slot.threads
            running[task.remote(trial.model, trial.key, *arguments)] = trial
        apply_requests()
        try:
            check_own()
        except OwnRayLost:
            raise SweepRefusedError(
                "Ray on this machine died while models were scored; run the same command to "
                "continue"
            ) from None
        ready, _ = ray.wait(list(running), timeout=1)
        for done in ready:
            trial = running.pop(done)
            try:
                evaluation: Evaluation | Exception = ray.get(done)
            except Exception as error:  # a worker can raise anything; the others are still scored
                evaluation = error
            yield trial, evaluation
