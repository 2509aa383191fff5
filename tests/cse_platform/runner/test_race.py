from collections import Counter
from collections.abc import Mapping
from typing import Any


def far_apart(values: Mapping[str, Any], seed: int, step: int) -> float:
    """0.05 between two temperatures, at most 0.0004 between two seeds; kinds are alike."""
    return float(values["temperature"]) / 2 + step / 1000 + seed % 5 / 10_000


def racing(**changes: Any) -> dict[str, Any]:
    confirm = {"top": 4, "seeds": [42, 0, 1, 2, 3, 4], "race": True} | changes
    return {
        "space": {"kind": ["a", "b"], "temperature": [0.1, 0.2]},
        "search": {"sampler": "grid", "trials": None},
        "seeds": {"search": 42, "confirm": confirm},
    }


def seeds_by_temperature(drive: Any) -> Counter[float]:
    further = [one for one in drive.trials if one.role == "confirm"]
    return Counter(one.values["temperature"] for one in further)


def test_what_cannot_be_the_best_gets_no_further_seed_until_the_race_is_called_off(start) -> None:
    """Both kinds at 0.1 are out after two seeds; both at 0.2 are equal, and get all five."""
    drive = start(**racing(), score=far_apart, capacity=3).run().assert_sound()
    assert seeds_by_temperature(drive) == {0.1: 2 * 2, 0.2: 2 * 5}
    assert drive.spec.planned == 4 + 4 * 5  # at most
    drive.close()
    second = start(**racing(race=False), score=far_apart).run()
    assert seeds_by_temperature(second) == {0.1: 2 * 5, 0.2: 2 * 5}


def test_every_racer_begins_a_seed_before_any_begins_the_next(start) -> None:
    drive = start(**racing(top=2), score=far_apart, capacity=5)
    drive.finish(*[plan.key for plan in drive.start()])
    assert [plan.seed for plan in drive.start()] == [0, 0, 1, 1, 2]


def test_the_value_that_chose_a_configuration_has_no_part_in_its_race(start) -> None:
    """Seed 42 says the reverse of all others, as loudly as can be."""

    def misleading(values: Mapping[str, Any], seed: int, step: int) -> float:
        sign = -1 if seed == 42 else 1
        return 0.5 + sign * far_apart(values, seed % 42, step)

    drive = start(**racing(), score=misleading).run()
    assert seeds_by_temperature(drive) == {0.1: 2 * 2, 0.2: 2 * 5}


def test_seeds_that_repeat_a_configuration_in_the_search_have_no_part_either(start) -> None:
    """Seed 43 of both has chosen them, and says the reverse of the seeds that follow."""

    def misleading(values: Mapping[str, Any], seed: int, step: int) -> float:
        sign = -1 if seed == 43 else 1
        return 0.5 + sign * far_apart(values, seed, step)

    settings = racing(top=2, seeds=[42, 43, 44, 45, 46, 47])
    settings |= {
        "space": {"temperature": [0.1, 0.2]},
        "search": {"sampler": "random", "trials": 4, "seed": 7},
    }
    drive = start(**settings, score=misleading).run()
    repeated = [one for one in drive.trials if one.role == "repeat"]
    assert {(one.values["temperature"], one.seed) for one in repeated} == {(0.1, 43), (0.2, 43)}
    assert seeds_by_temperature(drive) == {0.1: 2, 0.2: 4}


def test_a_seed_that_fails_is_no_value_and_holds_nobody_up(start) -> None:
    drive = start(**racing(), score=far_apart)
    while plans := drive.start():
        for plan in plans:
            if plan.role == "confirm" and plan.seed == 0 and plan.values["kind"] == "a":
                drive.fail(plan.key, f"bad luck {plan.key}", crashed=False)
            drive.finish(plan.key)
    assert drive.state.finished
    # With a single value of theirs after two rounds, the kind a at 0.1 is out a round later.
    further = [one for one in drive.trials if one.role == "confirm"]
    tried = Counter((one.values["kind"], one.values["temperature"]) for one in further)
    assert tried == {("a", 0.1): 3, ("b", 0.1): 3, ("a", 0.2): 5, ("b", 0.2): 5}
