import math

import pytest

from cse_platform.search.repeats import _expect_excess, choose_repeat

TWELVE = {str(place): [0.50 + place / 100] for place in range(12)}
"""The last is the best."""
KNOWN = {**TWELVE, "11": [0.61, 0.61], "10": [0.60, 0.60, 0.60]}
"""Three further seeds, all alike."""


def test_the_expected_excess_of_a_normal_value_equals_the_hand_calculation() -> None:
    """At no gap it is the mean of the half above 0; one deviation below, phi(1) - 1 + Phi(1)."""
    assert _expect_excess(0.0, 2.0) == pytest.approx(2 / math.sqrt(2 * math.pi))
    assert _expect_excess(1.0, 1.0) == pytest.approx(0.083315, abs=1e-6)
    assert _expect_excess(50.0, 1.0) == 0.0


def test_the_noise_is_learned_from_the_two_best_and_seeds_that_agree_end_it() -> None:
    few = dict(list(TWELVE.items())[-9:])
    assert choose_repeat(few, running=(), trials=9) is None
    assert choose_repeat(TWELVE, running=(), trials=12) == "11"
    assert choose_repeat(TWELVE, running=("11",), trials=13) == "10"
    assert choose_repeat(TWELVE, running=("11", "10"), trials=14) is None
    lucky = {**TWELVE, "11": [0.61, 0.57]}
    assert choose_repeat(lucky, running=(), trials=13) == "10"  # 0.60 is above 0.59
    assert choose_repeat(KNOWN, running=(), trials=100) is None


def test_seeds_that_differ_are_repeated_within_limits() -> None:
    """Configurations differ by a tenth of a point to the next, and seeds by several points."""
    near = {str(place): [0.60 + place / 1000] for place in range(12)}
    noisy = {**near, "11": [0.611, 0.571], "10": [0.61, 0.63, 0.59]}
    chosen = choose_repeat(noisy, running=(), trials=15)
    assert chosen in ("8", "9", "10")
    assert choose_repeat(noisy, running=(chosen,), trials=16) not in (None, chosen)
    assert choose_repeat(noisy, running=(), trials=10) is None  # a third are further seeds
    many = {**noisy, chosen: [*noisy[chosen], *[0.60, 0.62] * 5]}
    assert choose_repeat(many, running=(), trials=100) != chosen


def test_no_configuration_gets_more_than_ten_seeds() -> None:
    def with_seeds(count: int) -> dict[str, list[float]]:
        return {str(place): [0.55, 0.65] * (count // 2) for place in range(12)}

    assert choose_repeat(with_seeds(8), running=(), trials=1000) is not None
    assert choose_repeat(with_seeds(10), running=(), trials=1000) is None
