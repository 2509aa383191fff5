"""Events as a sweep would write them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cse_platform.tracking.events import (
    Event,
    SweepStarted,
    TrialFinished,
    TrialPoint,
    TrialStarted,
    TrialState,
)

Life = Callable[..., list[Event]]


@pytest.fixture(scope="session")
def sweep_started() -> Callable[..., SweepStarted]:
    """Makes the first event of a sweep."""

    def make(sweep: str = "first", **changes: Any) -> SweepStarted:
        fields = {
            "sweep": sweep,
            "method": "rankcse",
            "backbone": "mini",
            "spec": {"trials": 4},
            "provenance": {"host": "here"},
        }
        return SweepStarted.model_validate(fields | changes)

    return make


@pytest.fixture(scope="session")
def trial_life() -> Life:
    """Makes the events of one trial, from its start to its end."""

    def make(
        number: int,
        curve: Mapping[int, float],
        *,
        sweep: str = "first",
        configuration: str | None = None,
        seed: int = 42,
        state: TrialState | None = "COMPLETE",
        model: str | None = None,
        **started: Any,
    ) -> list[Event]:
        configuration = f"c{number}" if configuration is None else configuration
        trial = f"{configuration}-{seed}"
        fields: dict[str, Any] = {
            "sweep": sweep,
            "trial": trial,
            "number": number,
            "role": "search",
            "search_number": number,
            "seed": seed,
            "method": "rankcse",
            "revision": 1,
            "backbone": "mini",
            "configuration": configuration,
            "values": {"tau2": 0.025, "batch_size": 64, "rank_loss": "listnet"},
            "searched": ("tau2", "rank_loss"),
            "dev": {
                "checkpoint": "stsb",
                "search": "stsb",
                "identity": "dev-1",
                "source": "builtin",
                "corpus": "builtin",
            },
        }
        events: list[Event] = [TrialStarted.model_validate(fields | started)]
        for step, value in curve.items():
            metrics = {"dev/stsb_spearman": value, "train/loss": 1.0}
            events.append(
                TrialPoint(sweep=sweep, trial=trial, step=step, value=value, metrics=metrics)
            )
        if state is None:
            return events
        best = max(curve, key=lambda step: curve[step], default=None)
        value = None if best is None else curve[best]
        finished = TrialFinished(
            sweep=sweep,
            trial=trial,
            state=state,
            best_step=best,
            best_value=value,
            best_metrics={} if value is None else {"dev/stsb_spearman": value},
            model=model,
            error="loss is NaN" if state == "FAIL" else None,
            wall_seconds=1.5,
            provenance={"device": "cpu"},
        )
        return [*events, finished]

    return make
