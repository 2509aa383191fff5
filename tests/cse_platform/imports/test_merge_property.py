"""Whatever two stores saw of one journal, merged they hold the whole of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cse_platform.leaderboard.ingest.merge import merge
from cse_platform.tracking.events import Event, SweepFinished, TestAccessed, TrialFinished

START = datetime(2030, 1, 1, tzinfo=UTC)
STATES = ("COMPLETE", "FAIL", "PRUNED", None)

lives = st.lists(
    st.tuples(
        st.sampled_from(STATES),
        st.sampled_from(STATES),  # of a second attempt
        st.lists(st.integers(-100, 100), min_size=1, max_size=2),
        st.floats(0, 1),  # how much of it the one store saw
        st.booleans(),  # which of the two saw it all
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@given(drawn=lives, finished=st.sampled_from([(True, True), (True, False), (False, True)]))
@settings(max_examples=12, deadline=None, phases=[Phase.generate])  # to shrink takes minutes
def test_two_halves_are_the_whole(
    drawn, finished, trial_life, trial_evaluated, sweep_started, filled, contents, check_counters
) -> None:
    clock = Clock()
    begin = clock.stamped([sweep_started(spec={"trials": 4, "tags": ["a"]})])
    whole, one, other = list(begin), list(begin), list(begin)
    for number, (first, second, values, share, swap) in enumerate(drawn):
        curve = dict(enumerate((value / 100 for value in values), 1))
        place = {"configuration": f"c{number // 2}", "seed": number}
        life = trial_life(number, curve, state=first, **place)
        if first != "COMPLETE":
            life += trial_life(number, curve, state=second, **place)
        if "COMPLETE" in (first, second):
            key = life[0].trial
            life.append(opened(key))
            life.append(trial_evaluated(key, {"test/stsb_spearman": curve[1]}))
        life = clock.stamped(life)
        part = life[: round(share * len(life))]
        whole += life
        one += part if swap else life
        other += life if swap else part
    end = clock.stamped([SweepFinished(sweep="first", state="COMPLETE")])
    seen = (whole, True), (one, finished[0]), (other, finished[1])
    everything, here, there = (filled(events + end * told) for events, told in seen)
    expected = contents(everything)
    merge(here, there)
    merge(there, here)
    for merged in (here, there):
        assert contents(merged) == expected
        check_counters(merged)
    again = merge(here, there)
    assert (again.new, again.completed, again.newer, again.points, again.scores) == (0,) * 5
    assert contents(here) == expected
    for board in (everything, here, there):
        board.close()


def opened(trial: str) -> Event:
    return TestAccessed(
        sweep="first", trial=trial, tasks=("stsb",), source="hub", who="ann", command="cse-sweep"
    )


class Clock:
    """Gives each event a second of its own, and half a GPU to each trial, all the time."""

    def __init__(self) -> None:
        self.seconds = 0

    def stamped(self, events: Sequence[Event]) -> list[Event]:
        stamped = []
        for event in events:
            self.seconds += 1
            changes: dict[str, Any] = {"time": START + timedelta(seconds=self.seconds)}
            if isinstance(event, TrialFinished):
                changes |= {"gpus": 0.5, "wall_seconds": float(self.seconds)}
                changes |= {"provenance": {"host": "here", "gpu": "H100"}}
            stamped.append(event.model_copy(update=changes))
        return stamped
