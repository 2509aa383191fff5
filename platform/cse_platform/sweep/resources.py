"""The block `resources:` of a sweep file: what one trial occupies, and how long it may take."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import (
    Field,
)

from cse_methods.settings import Settings
from cse_platform.sweep.blocks import Share
from cse_platform.sweep.durations import Duration


@dataclass(frozen=True)
class Slot:
    """What one running trial occupies."""

    cpu: float
    """CPU cores."""
    gpu: float = 0.0
    """Share of a GPU."""

    @property
    def threads(self) -> int:
        """CPU threads of the trial."""
        return max(1, int(self.cpu))


class Resources(Settings):
    """What one trial occupies; a trial runs on one device.

    `auto` stands for as little as gives the most sentences a second of all trials together.
    """

    gpu: Annotated[Share, Field(ge=0, le=1)] | Literal["auto"] = Field(
        default=0.0, description="share of a GPU, or `auto`"
    )
    cpu: Annotated[Share, Field(gt=0)] | Literal["auto"] = Field(
        default=1.0, description="CPU cores, or `auto`"
    )
    fresh_process: bool = Field(
        default=False,
        strict=True,
        description="start a process for every trial, as for a method that leaves something behind",
    )
    timeout: Duration | None = Field(
        default=None,
        exclude_if=lambda seconds: seconds is None,  # as in the journals of older versions
        description="how long a trial may take, e.g. `2h`; one that takes longer goes on once from "
        "its checkpoint, and then fails",
    )
    silent_for: Duration | None = Field(
        default=None,
        exclude_if=lambda seconds: seconds is None,
        description="how long a trial may report nothing, e.g. `20min`; by default 20 times as "
        "long as ever before, and never less than 10 minutes",
    )

    @property
    def measured(self) -> bool:
        """Whether a short run decides what a trial occupies."""
        return "auto" in (self.cpu, self.gpu)

    @property
    def slot(self) -> Slot:
        """What a trial occupies; where that is measured, a whole GPU and one core until then."""
        cpu = 1.0 if self.cpu == "auto" else self.cpu
        return Slot(cpu, 1.0 if self.gpu == "auto" else self.gpu)
