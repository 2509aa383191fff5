"""Run `cse-sweep FILE` stage by stage, and print the results."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from cse_platform.cli.checks import check_stages
from cse_platform.cli.common import RUNS, say
from cse_platform.cli.outcome import outcome_lines, state_line
from cse_platform.cli.progress import watching
from cse_platform.control.annotations import replay_annotations
from cse_platform.errors import JournalError, StoreError, SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.render.formats import format_count
from cse_platform.render.terminal import Terminal
from cse_platform.runner.driver import Outcome
from cse_platform.runner.stages import Stage, run_stages
from cse_platform.runner.state import SweepState
from cse_platform.runner.tune import RayExecutor
from cse_platform.secrets import mask_url
from cse_platform.signals import heed_sigterm
from cse_platform.standard_streams import echo, unwritable_dropped
from cse_platform.stores.mlflow.store import experiment_id, is_server
from cse_platform.stores.mlflow.tags import view_link
from cse_platform.sweep.file import DraftFile
from cse_platform.sweep.preflight import fetch_missing
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import TrialHistory


@unwritable_dropped("stdout", "stderr")
def run_file(
    draft: DraftFile, *, runs: Path, address: str | None, ship: bool, offline: bool, reuse: bool
) -> None:
    """Run each sweep of a file in order; print what each has found and how to open MLflow."""
    heed_sigterm()
    console = Terminal(markup=False, highlight=False)  # messages of trials are not markup
    check = partial(check_stages, draft, runs=runs, address=address, offline=offline, starts=True)
    stages = check()
    if absent := [checked.spec for checked in stages if checked.missing]:
        for spec in absent:
            say(f"{spec.sweep}: fetching", log="stdout")
            fetch_missing(spec)
        stages = check()  # again, now that the files are here
    for checked in stages:
        for line in checked.doubts:
            echo(f"note: {line}", err=True)
        if checked.shortage:
            raise SweepRefusedError(checked.shortage)
    for line in dict.fromkeys(line for checked in stages for line in checked.own_sets):
        console.print(line, soft_wrap=True)
    options = "" if runs == RUNS else f" --runs {shlex.quote(str(runs))}"
    display = ConsoleDisplay(console, options)
    ready = [Stage(checked.spec, checked.where) for checked in stages]
    run_stages(ready, RayExecutor(address=address, ship=ship), display, reuse=reuse)


class ConsoleDisplay:
    """Prints the progress of a file's stages and their outcomes.

    `options` are those that name the leaderboard in a command.
    """

    def __init__(self, console: Terminal, options: str = "") -> None:
        self._console, self._options = console, options

    def begin_stage(self, stage: Stage) -> None:
        say(f"{stage.spec.sweep}: opening the stores, reading weights and data", log="stdout")

    def watch(self, stage: Stage, state: SweepState) -> AbstractContextManager[None]:
        return watching(state, self._console, errors=stage.stores.errors)

    def end_stage(self, stage: Stage, outcome: Outcome) -> None:
        for line in self.summarize(stage, outcome):
            self._console.print(line, soft_wrap=True)
        for sink in outcome.behind:
            echo(
                f"{sink.name} lacks {format_count(sink.behind, 'event')} ({sink.error}); nothing "
                "is lost: the same command brings them over when it is back",
                err=True,
            )

    def summarize(self, stage: Stage, outcome: Outcome) -> Iterator[str]:
        """Summarise the trials of a stage and what they found, as far as its stores answer."""
        yield from _summarize_trials(stage.spec, outcome)
        if stage.spec.smoke or not outcome.history.configurations():
            return
        try:
            with open_leaderboard(stage.stores.leaderboard) as board:
                yield from outcome_lines(board, stage.spec.sweep, options=self._options)
        except StoreError as error:
            yield f"the leaderboard cannot be read: {error}"

    def end_file(self, stages: Sequence[Stage]) -> None:
        last = stages[-1]
        try:
            replay_annotations(last.stores.leaderboard, last.stores.runs, last.spec.experiment)
        except (StoreError, JournalError) as error:
            echo(f"annotations are not brought over: {error}", err=True)
        for line in _describe_comparison(last.stores.mlflow, last.spec.experiment):
            self._console.print(line, soft_wrap=True)

    def wait_for_publication(self) -> None:
        say("writing the report of the sweep to MLflow", log="stdout")


def _summarize_trials(spec: SweepSpec, outcome: Outcome) -> Iterator[str]:
    """Summarise the state of a sweep, its trials in each state, and what bounded it."""
    trials = list(outcome.history.trials.values())
    counts = Counter[str](trial.state for trial in trials)
    state = {"COMPLETE": "complete", "INTERRUPTED": "interrupted"}.get(
        outcome.state, "is complete already; a larger --trials extends it"
    )
    if state == "complete" and not counts["COMPLETE"]:
        state = "ended without a result"
    yield state_line(spec.sweep, state, counts)
    if outcome.history.spent:
        yield f"the search was ended by its budget: {outcome.history.spent}"
    if outcome.state != "INTERRUPTED":
        yield from _describe_savings(spec, trials)
    if deleted := sum(trial.model_deleted for trial in trials):
        yield (
            f"{format_count(deleted, 'model')} deleted; the best {spec.kept} configurations keep "
            "theirs (keep: {models: all} keeps all)"
        )


def _describe_savings(spec: SweepSpec, trials: Sequence[TrialHistory]) -> Iterator[str]:
    """Describe how many further seeds a race has saved."""
    confirm = spec.seeds.confirm
    further = sum(trial.role == "confirm" and not trial.averages for trial in trials)
    if confirm is not None and confirm.race and 0 < further < spec.confirming:
        yield (
            f"the race took {further} of {spec.confirming} further seeds; the other configurations "
            "could no longer be the best"
        )


def _describe_comparison(uri: str, experiment: str) -> Iterator[str]:
    """Describe how to open MLflow's table of all trials, averaged over seeds."""
    shown = mask_url(uri)
    try:
        view = f"/{view_link(experiment_id(uri, experiment))}"
    except StoreError:
        view = ""  # the sweep's end has already reported that MLflow is down
    if is_server(uri):
        yield f"Compare runs: {shown.rstrip('/')}{view}"
    else:
        yield f"Compare runs: mlflow ui --backend-store-uri {shlex.quote(shown)}"
        yield f"    and open: http://127.0.0.1:5000{view}"
