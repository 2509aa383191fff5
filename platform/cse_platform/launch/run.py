"""Run `cse-sweep FILE` stage by stage, print the results, and notify people of the end."""

import logging
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from cse_platform.control.annotations import replay_annotations
from cse_platform.errors import JournalError, StoreError, SweepRefusedError
from cse_platform.launch import RUNS
from cse_platform.launch.check import CheckedSweep, check_and_fetch, naming_stage
from cse_platform.launch.outcome import add_folder, explain_no_result, outcome_lines, state_line
from cse_platform.launch.progress import watching
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.numbers import format_count
from cse_platform.presentation.terminal import Terminal
from cse_platform.runner.driver import Outcome, drive_sweep
from cse_platform.runner.tune import RayExecutor
from cse_platform.secrets import mask_text, mask_url
from cse_platform.signals import interrupt_on_sigterm, interrupts_enforced
from cse_platform.standard_streams import announce, echo, unwritable_dropped
from cse_platform.stores.mlflow.store import experiment_id, is_server
from cse_platform.stores.mlflow.tags import view_link
from cse_platform.sweep.file import DraftFile
from cse_platform.sweep.identity import settings_hash
from cse_platform.sweep.problems import Steps
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import Launch

_log = logging.getLogger(__name__)


@unwritable_dropped("stdout", "stderr")
def run_file(
    draft: DraftFile, *, runs: Path, address: str | None, ship: bool, offline: bool, reuse: bool
) -> None:
    """Run each sweep of a file in order; print what each has found and how to open MLflow."""
    interrupt_on_sigterm()
    console = Terminal(markup=False, highlight=False)  # messages of trials are not markup
    with closing(RayExecutor(address=address, ship=ship)) as executor:
        with interrupts_enforced():
            stages = check_and_fetch(
                draft, runs=runs, address=address, offline=offline, start=executor.prepare
            )
        for checked in stages:
            for line in checked.doubts:
                echo(f"note: {line}", err=True)
            if checked.shortage:
                with naming_stage(checked.steps):
                    raise SweepRefusedError(checked.shortage)
        for line in dict.fromkeys(line for checked in stages for line in checked.own_sets):
            console.print(line, soft_wrap=True)
        options = "" if runs == RUNS else f" --runs {shlex.quote(str(runs))}"
        run_stages(stages, executor, console, options=options, reuse=reuse)


def run_stages(
    stages: Sequence[CheckedSweep],
    executor: RayExecutor,
    console: Terminal,
    *,
    options: str,
    reuse: bool,
) -> None:
    """Run the stages of a file in order; the first that fails ends it. As for `run_stage`."""
    launch = Launch(settings=settings_hash(checked.spec for checked in stages))
    for checked in stages:
        launch = run_stage(
            checked.spec, checked.stores, executor, console,
            launch=launch, options=options, reuse=reuse, steps=checked.steps,
        )  # fmt: skip
    last = stages[-1]
    try:
        replay_annotations(last.stores.leaderboard, last.stores.runs, last.spec.experiment)
    except (StoreError, JournalError) as error:
        echo(f"annotations were not copied to MLflow: {error}", err=True)
    for line in _describe_comparison(last.stores.mlflow, last.spec.experiment):
        console.print(line, soft_wrap=True)


def run_stage(
    spec: SweepSpec,
    stores: SweepStores,
    executor: RayExecutor,
    console: Terminal,
    *,
    launch: Launch | None = None,
    options: str | None = None,
    reuse: bool,
    steps: Steps = (),
) -> Launch:
    """Run one sweep to its end, print its progress and outcome, and send its notifications.

    `launch` is that of its file; without one, the sweep is launched alone. Returns the launch that
    it belongs to, which is an earlier one if the same file was launched before.

    `options` are those that name the leaderboard in a command; without them, what the leaderboard
    says is not printed. `steps` is the path of a stage within its file. A KeyboardInterrupt, which
    SIGTERM raises too, closes the sweep's stores and journal.

    Raises SweepRefusedError if no trial was completed, and KeyboardInterrupt if the sweep was
    interrupted.
    """
    announce(f"{spec.sweep}: opening the stores, reading weights and data", log="stdout")
    watch = partial(watching, console=console, errors=stores.errors)
    with failure_notified(spec.sweep, spec.notify), naming_stage(steps):
        outcome = drive_sweep(spec, stores, executor, launch=launch, reuse=reuse, watch=watch)
        lines = [*_summarize_sweep(spec, stores, outcome, options)]
        for line in lines:
            console.print(line, soft_wrap=True)
        for sink in outcome.behind:
            echo(
                f"{sink.name} lacks {format_count(sink.behind, 'event')} ({sink.error}); "
                "nothing is lost: run the same command again when it is back",
                err=True,
            )
        if outcome.state == "INTERRUPTED":
            raise KeyboardInterrupt
        if not outcome.history.configurations():
            raise SweepRefusedError(explain_no_result(spec.sweep, outcome.history.trials.values()))
        if outcome.state == "COMPLETE":
            notify(spec.sweep, spec.notify, "finished", "\n".join(lines))
        return outcome.launch


def _summarize_sweep(
    spec: SweepSpec, stores: SweepStores, outcome: Outcome, options: str | None
) -> Iterator[str]:
    """Summarise a sweep's state, its trials, what bounded it, and what its stores say it found."""
    trials = list(outcome.history.trials.values())
    counts = Counter[str](trial.state for trial in trials)
    trials_allowed = spec.search.trials
    larger = "a larger budget" if trials_allowed is None else f"--trials above {trials_allowed}"
    state = {"COMPLETE": "complete", "INTERRUPTED": "interrupted"}.get(
        outcome.state, f"is already complete; {larger} extends it"
    )
    if state == "complete" and not counts["COMPLETE"]:
        state = "failed"
    yield state_line(spec.sweep, state, counts)
    if outcome.history.spent:
        yield f"the search ended because its budget is spent: {outcome.history.spent}"
    further = sum(trial.role == "confirm" for trial in trials)
    has_raced = spec.seeds.confirm is not None and spec.seeds.confirm.race
    if has_raced and outcome.state != "INTERRUPTED" and 0 < further < spec.confirming:
        yield (
            f"the race ran {further} of {spec.confirming} further seeds; the other "
            "configurations could no longer win"
        )
    if deleted := sum(trial.model_deleted for trial in trials):
        yield (
            f"{format_count(deleted, 'model')} deleted; those of the best {spec.kept} "
            "configurations stay (keep: {models: all} keeps all)"
        )
    if options is None or not outcome.history.configurations():
        return
    try:
        with open_leaderboard(stores.leaderboard) as board:
            runs = stores.folder.parents[1]
            yield from outcome_lines(board, spec.sweep, runs=runs, options=options)
    except StoreError as error:
        yield f"the leaderboard cannot be read: {error}"


def _describe_comparison(uri: str, experiment: str) -> Iterator[str]:
    """Describe how to open MLflow's table of all trials, averaged over seeds.

    Says nothing if MLflow is down, which the sweep's end has already reported.
    """
    shown = mask_url(uri)
    try:
        view = view_link(experiment_id(uri, experiment))
    except StoreError:
        return
    if is_server(uri):
        yield f"Compare runs: {shown.rstrip('/')}/{view}"
    else:
        show = add_folder(f"mlflow ui --backend-store-uri {shlex.quote(shown)}")
        yield f"Compare runs: {show}"
        yield f"    and open: http://127.0.0.1:5000/{view}"


@contextmanager
def failure_notified(sweep: str, urls: Sequence[SecretStr]) -> Iterator[None]:
    """Report an exception that leaves the context, unless it is a KeyboardInterrupt."""
    try:
        yield
    except Exception as error:
        notify(sweep, urls, "failed", str(error) or repr(error))
        raise


def notify(sweep: str, urls: Sequence[SecretStr], what: str, details: str) -> None:
    """Send a message: a title of a word or two, and details.

    Services have a few seconds; one that does not answer costs a warning.
    """
    if not urls:
        return
    import apprise

    service, title = apprise.Apprise([url.get_secret_value() for url in urls]), f"{sweep}: {what}"
    if not service.notify(title=title, body=mask_text(details) or title):
        _log.warning("some notifications failed: %s", title)
