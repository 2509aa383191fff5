"""One line of a CSV file of published numbers: one number, checked as far as it stands alone."""

import json
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from cse_methods.settings import Settings
from cse_methods.tasks import AVG_STS, AVG_TRANSFER, LONG_TASKS, STS_TASKS, TRANSFER_TASKS
from cse_platform.leaderboard.published.row import ABOUT_THE_RUN, SEEDS, PublishedSplit
from cse_platform.sweep.reading.problems import Problem, ProblemsError, did_you_mean, format_value
from cse_platform.tracking.effort import COSTS, EPOCH_MINUTES, GPU_MEMORY, TRAIN_MINUTES

NOTHING = "-"
"""The `configuration` of a row that nothing of ours corresponds to."""
NOT = "not"
METHOD, RERUN = "method", "rerun"
"""What a `configuration` says of the row itself."""
NOT_STATED = "not stated"

TASK_METRICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*STS_TASKS, AVG_STS), ("spearman", "kendall", "ndcg")),
    **dict.fromkeys((*TRANSFER_TASKS, AVG_TRANSFER), ("accuracy",)),
    **dict.fromkeys(LONG_TASKS, ("accuracy", NOT_STATED)),
    **dict.fromkeys((TRAIN_MINUTES, EPOCH_MINUTES), ("minutes",)),
    GPU_MEMORY: ("gib",),
}
"""What each task is measured by; the first is the one that is not named in its column."""
ENDINGS = {"kendall": "_kcc", "ndcg": "_ndcg"}


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise ValueError(f"expected a number as the paper prints it, e.g. 80.36, got {text!r}")
    return number


def _settings(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    settings = {name.strip(): value.strip() for name, _, value in parts}
    if not all(name and value for name, value in settings.items()) or len(settings) < len(parts):
        raise ValueError(f"expected NAME=VALUE;NAME=VALUE, each name once, got {text!r}")
    if not settings.get(SEEDS, "1").isdecimal():
        raise ValueError(f"expected a whole number of seeds, got {format_value(settings[SEEDS])}")
    return settings


def _configuration(text: str) -> Any:
    if text == NOTHING:
        return text
    try:
        configuration = json.loads(text)
    except json.JSONDecodeError:
        configuration = None
    if not isinstance(configuration, dict):
        raise ValueError(
            'expected a JSON object such as {"rank_loss": "listnet"}, or - where nothing of ours '
            f"corresponds, got {format_value(text)}"
        )
    if not isinstance(configuration.get(RERUN, True), bool):
        raise ValueError(
            f"expected true or false for {RERUN}, got {format_value(configuration[RERUN])}"
        )
    for name, value in configuration.items():
        if isinstance(value, dict) and value.keys() != {NOT}:
            raise ValueError(
                f'expected a value or {{"not": VALUE}} for {name}, got {format_value(value)}'
            )
    return configuration


Name = Annotated[str, Field(min_length=1)]
Number = Annotated[Decimal, BeforeValidator(_number)]


class Line(Settings):
    """One number of a paper's table."""

    paper: Name
    table: Name
    backbone: Name
    method: Name
    settings: Annotated[dict[str, str], BeforeValidator(_settings)] = Field({})
    task: Name
    split: PublishedSplit
    metric: Name
    value: Number
    std: Annotated[Number, Field(ge=0)] | None = None
    configuration: Annotated[
        dict[str, Any] | Literal["-"] | None, BeforeValidator(_configuration)
    ] = None
    """None: the settings are names and values of our hyperparameters."""

    @model_validator(mode="after")
    def _fits_its_task(self) -> Self:
        if problems := [*_problems(self)]:
            raise ProblemsError(problems)
        return self

    @property
    def column(self) -> str:
        """The column of the leaderboard that the number belongs to."""
        return self.task + ENDINGS.get(self.metric, "")

    @property
    def wanted(self) -> dict[str, Any] | None:
        """What one of our configurations must have, as `PublishedRow.configuration`."""
        if self.configuration == NOTHING:
            return None
        if isinstance(self.configuration, dict):
            of_the_row = (METHOD, RERUN)
            return {name: v for name, v in self.configuration.items() if name not in of_the_row}
        hyperparameters = self.settings.items()
        return {name: _scalar(v) for name, v in hyperparameters if name not in ABOUT_THE_RUN}

    @property
    def our_method(self) -> str:
        """The method that a configuration of ours must be of."""
        return str(self._told.get(METHOD, self.method))

    @property
    def rerun(self) -> bool:
        """Whether the paper ran another's method anew."""
        return self._told.get(RERUN) is True

    @property
    def _told(self) -> dict[str, Any]:
        return self.configuration if isinstance(self.configuration, dict) else {}

    def as_score(self, number: Decimal) -> float:
        """The number as a fraction; costs stay what they are."""
        return float(number if self.task in COSTS else number / 100)


def _problems(line: Line) -> list[Problem]:
    metrics = TASK_METRICS.get(line.task)
    if metrics is None:
        hint = did_you_mean(line.task, TASK_METRICS)
        known = f"known: {', '.join(TASK_METRICS)}"
        return [Problem(("task",), f"no task {line.task!r}{hint}; {known}")]
    problems = []
    if line.metric not in metrics:
        expected = f"expected {' or '.join(metrics)} for {line.task}, got {line.metric!r}"
        problems.append(Problem(("metric",), expected + did_you_mean(line.metric, metrics)))
    if line.task not in COSTS and abs(line.value) > 100:
        text = f"expected a percentage between -100 and 100, got {line.value}"
        problems.append(Problem(("value",), text))
    return problems


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
