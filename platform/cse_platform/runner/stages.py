"""Run the sweeps of a file, stage by stage; a `StageDisplay` shows their progress to a person."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from cse_methods.errors import CseError
from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.sweeps import explain_no_result
from cse_platform.runner.driver import Executor, Outcome, drive_sweep
from cse_platform.runner.notifying import Notifier
from cse_platform.runner.publishing import Publisher
from cse_platform.runner.state import SweepState
from cse_platform.sweep.identity import canonical_hash, settings_hash
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import Launch


@dataclass(frozen=True)
class Stage:
    """One sweep of a file, ready to start."""

    spec: SweepSpec
    """The sweep, with its data source filled in."""
    stores: SweepStores


class StageDisplay(Protocol):
    """Shows a person the progress of a file's stages; methods are called in this order."""

    def begin_stage(self, stage: Stage) -> None:
        """Called when a stage is about to open its stores."""

    def watch(self, stage: Stage, state: SweepState) -> AbstractContextManager[object]:
        """Show the progress of the stage while the context is open."""

    def end_stage(self, stage: Stage, outcome: Outcome) -> None:
        """Called when the driver of a stage has ended; an interrupted stage ends the file."""

    def summarize(self, stage: Stage, outcome: Outcome) -> Iterable[str]:
        """Summarise the outcome of a stage for those who are notified of it."""

    def end_file(self, stages: Sequence[Stage]) -> None:
        """Called when all stages have ended."""

    def wait_for_publication(self) -> None:
        """Called when only the last publication remains."""


def run_stages(
    stages: Sequence[Stage], executor: Executor, display: StageDisplay, *, reuse: bool
) -> None:
    """Run the stages in order; the first that fails ends the file.

    A KeyboardInterrupt, which SIGTERM raises too, closes the sweep's stores and journal. Raises
    SweepRefusedError if a stage completes no trial.
    """
    launch = Launch(settings=settings_hash(stage.spec for stage in stages))
    with ExitStack() as publishing:
        for stage in stages:
            publisher = Publisher(stage.spec.sweep, stage.stores)
            publishing.callback(publisher.wait)
            launch = run_stage(stage, executor, display, publisher, launch, reuse=reuse)
        display.end_file(stages)
        if publisher.at_work:
            display.wait_for_publication()
        executor.close()  # before the publishers are waited for


def rehearse_stages(
    stages: Sequence[tuple[str, Callable[[], Stage]]],
    executor: Executor,
    display: StageDisplay,
    report: Callable[[str, CseError | None], None],
    *,
    reuse: bool,
) -> None:
    """Run the stages in order, check each just before it runs, and publish nothing.

    If a stage fails, the next ones still run. `report` is called with the name of each stage and
    its error, or None.
    """
    launch = Launch(settings=canonical_hash([sweep for sweep, _ in stages]))
    for sweep, check in stages:
        cause = None
        try:
            stage = check()
            silent = Publisher(sweep, stage.stores, command="")
            run_stage(stage, executor, display, silent, launch, reuse=reuse)
        except CseError as error:
            cause = error
        report(sweep, cause)
    executor.close()


def run_stage(
    stage: Stage,
    executor: Executor,
    display: StageDisplay,
    publisher: Publisher,
    launch: Launch | None = None,
    *,
    reuse: bool,
) -> Launch:
    """Run one sweep to its end, and send its notifications.

    `launch` is that of its file; without one, the sweep is launched alone. Returns the launch that
    it belongs to, which is an earlier one if the same file was launched before.

    Raises SweepRefusedError if no trial was completed, and KeyboardInterrupt if the sweep was
    interrupted.
    """
    spec = stage.spec
    display.begin_stage(stage)
    with Notifier(spec.sweep, spec.notify) as notifier:

        @contextmanager
        def watch(state: SweepState) -> Iterator[None]:
            with display.watch(stage, state), notifier.watching(state):
                yield

        outcome = drive_sweep(
            spec, stage.stores, executor, publisher, launch=launch, reuse=reuse, watch=watch
        )
        display.end_stage(stage, outcome)
        if outcome.state == "INTERRUPTED":
            raise KeyboardInterrupt
        if not outcome.history.configurations():
            raise SweepRefusedError(explain_no_result(spec.sweep, outcome.history.trials.values()))
        if outcome.state == "COMPLETE":
            notifier.tell("finished", "\n".join(display.summarize(stage, outcome)))
        return outcome.launch
