"""The block `search: {budget: …}`: what ends a search, beside a number of trials."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from cse_methods.settings import Settings
from cse_platform.sweep.durations import Duration, format_duration


class Budget(Settings):
    """What a search may take. The one that is reached first ends the proposing of new trials.

    Trials that run then come to their ends. Further seeds and test scores come on top.
    """

    time: Duration | None = Field(
        default=None, description="how long trials of the search may run, all in all, e.g. `8h`"
    )
    gpu_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="hours of whole GPUs that trials of the search may take"
    )
    improvement: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="stop where another trial is expected to raise the best dev score by less than "
        "this, a fraction: 0.001 are 0.1 points",
    )

    def words(self) -> list[str]:
        """Each limit, for people."""
        time = [] if self.time is None else [f"{format_duration(self.time)} of trials"]
        hours = [] if self.gpu_hours is None else [f"{self.gpu_hours:g} GPU-hours"]
        least = self.improvement
        gain = [] if least is None else [f"until a trial adds fewer than {100 * least:g} points"]
        return [*time, *hours, *gain]

    @model_validator(mode="after")
    def _check_some(self) -> Self:
        if self.time is self.gpu_hours is self.improvement is None:
            raise ValueError("expected one or more of 'time', 'gpu_hours' and 'improvement'")
        return self
