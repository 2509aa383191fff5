"""What choosing on dev was worth, by values worked out by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cse_platform.leaderboard.statistics.choosing import (
    EvaluatedConfiguration,
    TaskRows,
    choice_worth,
)

RISING = np.arange(12.0)
SHARED = np.arange(24) < 12
GOLD = np.concatenate([RISING, RISING])


def task(name: str = "sts12", **changed: Any) -> TaskRows:
    rows = {"gold": GOLD, "groups": None, "shared": SHARED, "kept": ~SHARED}
    return TaskRows(name, **(rows | changed))


def configuration(
    dev: Sequence[float], *signs: tuple[int, int], tasks: Sequence[str] = ("sts12",)
) -> EvaluatedConfiguration:
    """A seed for each dev score; its cosines rise or fall with gold on shared and on kept rows."""
    seeds = [np.concatenate([RISING * shared, RISING * kept]) for shared, kept in signs]
    return EvaluatedConfiguration(dev, dict.fromkeys(tasks, np.array(seeds)))


FITS = configuration([0.8], (1, -1))
"""It fits what dev shares, and fails elsewhere."""
TRUE = configuration([0.6], (-1, 1))


def test_the_gain_is_the_chosen_over_the_average_on_either_rows() -> None:
    worth = choice_worth([TRUE, FITS], [task()])
    assert worth.dev_gain == pytest.approx(0.1)
    gains = {gain.rows: gain for gain in worth.gains}
    assert {name: gain.gain for name, gain in gains.items()} == pytest.approx(
        {"all": 0, "shared": 1, "kept": -1}
    )
    assert [gain.pairs for gain in worth.gains] == [24, 12, 12]
    assert worth.excess == pytest.approx(2)
    # A correlation of 1 or -1 is that in every resample, so that nothing is left to chance.
    ends = worth.excess_interval
    assert ends is not None and (ends.low, ends.high) == (pytest.approx(2), pytest.approx(2))
    assert ends.over == "pairs"


def test_several_seeds_are_averaged_and_come_before_a_lucky_one() -> None:
    steady = configuration([0.5, 0.7], (1, 1), (-1, 1))
    worth = choice_worth([FITS, steady], [task()])
    assert (worth.seeds, worth.dev_gain) == (2, pytest.approx(-0.1))
    shared, kept = worth.gains[1:]
    assert (shared.gain, kept.gain) == (pytest.approx(-0.5), pytest.approx(1))
    # Its two seeds are 2 apart on shared rows: with one degree of freedom that may be chance.
    assert shared.interval.over == "seeds" and shared.interval.low < -2 < 1 < shared.interval.high
    assert kept.interval.low == pytest.approx(1) == kept.interval.high


def test_tasks_that_share_too_little_count_among_all_rows_alone() -> None:
    few = task("sts13", shared=np.arange(24) < 9)
    unknown = task("sts14", shared=None)
    both = [
        configuration([dev], signs, tasks=("sts12", "sts13", "sts14"))
        for dev, signs in ((0.8, (1, 1)), (0.6, (-1, 1)))
    ]
    whole = choice_worth(both, [task(), few, unknown])
    every, *some = [gain.tasks for gain in whole.gains]
    assert (every, some) == (("sts12", "sts13", "sts14"), [("sts12",)] * 2)
    alone = choice_worth(both, [few, unknown])
    assert [gain.rows for gain in alone.gains] == ["all"]
    assert alone.excess is None and alone.excess_interval is None


def test_pairs_of_one_group_are_drawn_together() -> None:
    rng = np.random.default_rng(0)
    pairs, dev = 200, (0.8, 0.6)
    gold, noise = rng.normal(size=pairs), rng.normal(size=(2, pairs // 10))
    both = [
        EvaluatedConfiguration([one], {"sts12": (gold + own.repeat(10))[None]})
        for one, own in zip(dev, noise, strict=True)
    ]
    width = {}
    for name, groups in (("pairs", None), ("groups", np.arange(pairs) // 10)):
        rows = task(gold=gold, groups=groups, shared=None, kept=np.ones(pairs, np.bool_))
        ends = choice_worth(both, [rows]).gains[0].interval
        width[name] = ends.high - ends.low
    assert width["groups"] > 1.5 * width["pairs"]


def test_one_configuration_is_no_choice() -> None:
    with pytest.raises(ValueError, match="got 1 and 1"):
        choice_worth([FITS], [task()])
