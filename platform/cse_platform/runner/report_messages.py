"""What a worker tells the driver, all of it under one key of Ray's results.

A report travels as JSON, so that nothing that a method has made is unpickled in the driver, and is
checked there. A sweep drops everything else that a method hands to Ray itself.
"""

import json
from typing import Annotated, Any

import ray
from pydantic import Field, ValidationError
from ray import tune

from cse_methods.reports import LAST_STEP, check_report
from cse_platform.sweep.problems import first_problem
from cse_platform.tracking.events import Recorded

REPORT = "cse"
"""The key of a result that holds a report."""

Step = Annotated[int, Field(strict=True, ge=0, le=LAST_STEP)]


class Printed(Recorded):
    """What a trial has printed since its last report."""

    text: str
    total: int
    """Bytes that it has printed so far."""
    offset: Annotated[int, Field(ge=0)]
    """Position after the text in the file of its output."""


class RaisedError(Recorded):
    """An error that a method has raised."""

    message: str
    says_what_to_do: bool
    diverged: bool = False
    """Whether it is that of a loss that is no longer a number, which no error of code need be."""
    traceback: str


class Report(Recorded):
    """One message of a worker: a dev point with what belongs to it, or output, a wait, an error or
    the end."""

    attempt: str
    """Ray's id of the trial: of one attempt at one of ours, in one process."""
    begins: bool = False
    """Whether this only tells the node of a trial that begins."""
    node: str | None = None
    """Ray's id of the node, in the first report of a trial on a cluster and in an error."""
    step: Step | None = None
    """Of a dev point; None if this is none."""
    metrics: dict[str, float] = Field(default_factory=dict)
    provenance: dict[str, str] = Field(default_factory=dict)
    """What is new since the last report."""
    checkpoint_step: Step | None = None
    """The step of a checkpoint that is now complete: of this dev point or an earlier one."""
    output: Printed | None = None
    waits: str | None = None
    """Why the trial waits."""
    error: RaisedError | None = None
    """The error that ends the trial."""
    model_problem: str | None = None
    """Why the trial's model could not be kept; empty if it was kept."""
    unread: tuple[str, ...] = ()
    """Hyperparameters that a whole training has not read."""


def checkpoint_location(root: str, attempt: str, step: int) -> str:
    """The location of an attempt's checkpoint in the folder or URI of a sweep's checkpoints."""
    return f"{root}/{attempt}/checkpoint_{step}"


def find_attempt() -> str:
    """The attempt that this process works on now, which is the caller's in a trial's own thread."""
    return str(tune.get_context().get_trial_id())


def find_node() -> str:
    """Ray's id of the node of this process."""
    return str(ray.get_runtime_context().get_node_id())


def make_result(report: Report) -> dict[str, Any]:
    """Make the result for Ray; its step and metrics are there for scripts that have no driver."""
    shown = {} if report.step is None else {"step": report.step, **report.metrics}
    return {**shown, REPORT: json.dumps(report.model_dump(exclude_defaults=True))}


def send(report: Report, *, checkpoint: tune.Checkpoint | None = None) -> None:
    """Send a report. Ray may end the trial here; then this does not return."""
    tune.report(make_result(report), checkpoint=checkpoint)


def read_report(sent: object) -> Report:
    """Check what a worker has sent as a report. Raises ValueError if it is invalid."""
    try:
        report = Report.model_validate_json(sent)  # type: ignore[arg-type]
        check_report(report.step or 0, report.metrics)
        return report
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        text = f"{field}: {first_problem(error)}".removeprefix(": ")
        raise ValueError(f"its worker sent an invalid report ({text})") from None
