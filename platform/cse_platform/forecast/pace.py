"""How many trials there is room for within a budget."""

from dataclasses import dataclass

from cse_platform.sweep.budget import Budget


@dataclass(frozen=True)
class Pace:
    """How fast a sweep spends."""

    seconds: float
    """That a trial takes."""
    at_once: int
    """Trials that run at the same time."""
    gpu: float
    """A trial's share of a GPU."""

    def trials_within(
        self,
        budget: Budget | None,
        *,
        count: int | None,
        seconds: float = 0.0,
        gpu_seconds: float = 0.0,
    ) -> float | None:
        """How many trials are begun before a budget is spent; None where nobody can know.

        `count` limits them too; `seconds` and `gpu_seconds` are spent already.
        """
        room = [] if count is None else [float(count)]
        if budget is not None and budget.time is not None:
            room.append((budget.time - seconds) * self.at_once / self.seconds)
        if budget is not None and budget.gpu_hours is not None and self.gpu:
            room.append((3600 * budget.gpu_hours - gpu_seconds) / (self.seconds * self.gpu))
        return max(min(room), 0.0) if room else None
