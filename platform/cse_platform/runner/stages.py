"""Runs the sweeps of a file, stage by stage; a display says what a person sees of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from cse_methods.errors import CseError
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.driver import Executor, Outcome, drive_sweep
from cse_platform.runner.notifying import Notifier
from cse_platform.runner.publishing import Publisher
from cse_platform.runner.state import Reuse, SweepState
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.history import History


@dataclass(frozen=True)
class Stage:
    """One sweep of a file, which can start."""

    spec: SweepSpec
    """The sweep, with its data source written out."""
    stores: SweepStores


class StageDisplay(Protocol):
    """Shows a person how the stages of a file go; called in the order of these methods."""

    def begin_stage(self, stage: Stage) -> None:
        """A stage opens its stores."""

    def watch(self, stage: Stage, state: SweepState) -> AbstractContextManager[object]:
        """Show the progress of the stage while the context is open."""

    def end_stage(self, stage: Stage, outcome: Outcome) -> None:
        """The driver of a stage has ended; an interrupted one ends the file."""

    def summarize(self, stage: Stage, outcome: Outcome) -> Iterable[str]:
        """Summarise the outcome of a stage, for those who are notified."""

    def end_file(self, stages: Sequence[Stage]) -> None:
        """All stages have ended."""

    def wait_for_publication(self) -> None:
        """All is done but the last publication."""


def run_stages(
    stages: Sequence[Stage], executor: Executor, display: StageDisplay, *, reuse: Reuse
) -> None:
    """Run the stages in order; the first that fails ends the file.

    After a KeyboardInterrupt, which SIGTERM raises too, the stores and the journal of the sweep are
    closed. Raises SweepRefusedError if a stage has completed no trial.
    """
    with ExitStack() as publishing:
        for stage in stages:
            publisher = Publisher(stage.spec.sweep, stage.stores)
            publishing.callback(publisher.wait)
            run_stage(stage, executor, display, publisher, reuse=reuse)
        display.end_file(stages)
        if publisher.at_work:
            display.wait_for_publication()
        executor.close()  # while the report is written


def rehearse_stages(
    stages: Iterable[tuple[str, Callable[[], Stage]]],
    executor: Executor,
    display: StageDisplay,
    report: Callable[[str, CseError | None], None],
    *,
    reuse: Reuse,
) -> None:
    """Run the stages in order, each checked when its turn comes, and publish nothing.

    A stage that fails does not keep the next ones from running; `report` gets the name of each and
    why it failed, if it did.
    """
    for sweep, check in stages:
        cause = None
        try:
            stage = check()
            silent = Publisher(sweep, stage.stores, command="")
            run_stage(stage, executor, display, silent, reuse=reuse)
        except CseError as error:
            cause = error
        report(sweep, cause)
    executor.close()


def run_stage(
    stage: Stage,
    executor: Executor,
    display: StageDisplay,
    publisher: Publisher,
    *,
    reuse: Reuse,
) -> None:
    """Run one sweep to its end, and notify those who want it.

    SweepRefusedError if no trial was completed; KeyboardInterrupt if the sweep was interrupted.
    """
    spec = stage.spec
    display.begin_stage(stage)
    with Notifier(spec.sweep, spec.notify) as notifier:

        @contextmanager
        def watch(state: SweepState) -> Iterator[None]:
            with display.watch(stage, state), notifier.watching(state):
                yield

        outcome = drive_sweep(spec, stage.stores, executor, publisher, reuse=reuse, watch=watch)
        display.end_stage(stage, outcome)
        if outcome.state == "INTERRUPTED":
            raise KeyboardInterrupt
        if not outcome.history.configurations():
            raise SweepRefusedError(_explain_nothing_completed(spec, outcome.history))
        if outcome.state == "COMPLETE":
            notifier.tell("finished", "\n".join(display.summarize(stage, outcome)))


def _explain_nothing_completed(spec: SweepSpec, history: History) -> str:
    errors = Counter(trial.error for trial in history.trials.values() if trial.error)
    reason = f"; {errors.most_common(1)[0][0]}" if errors else ""
    return f"no trial of sweep {spec.sweep!r} was completed{reason}"
