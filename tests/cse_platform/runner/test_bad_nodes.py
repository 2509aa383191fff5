"""A node that keeps failing trials is told from trials that fail everywhere."""

import random

from cse_platform.runner.failure_policy import BadNodes


def run(nodes: BadNodes, trial: str, node: str, *, well: bool) -> list[str]:
    if well:
        nodes.note_progress(trial, node)
        return []
    return nodes.note_failure(trial, node)


def test_a_node_that_fails_what_does_well_elsewhere_is_bad_and_what_failed_is_named() -> None:
    nodes = BadNodes()
    for number in range(8):
        run(nodes, f"good {number}", "a", well=True)
    run(nodes, "early", "b", well=True)  # it was in order before
    told = [run(nodes, f"bad {number}", "b", well=False) for number in range(9)]
    [failed] = filter(None, told)  # said once
    assert failed == [f"bad {number}" for number in range(len(failed))]
    assert len(failed) <= 6


def test_no_node_is_bad_while_none_does_better() -> None:
    nodes = BadNodes()
    for number in range(50):
        assert not run(nodes, f"one {number}", "a", well=False)
        assert not run(nodes, f"other {number}", "b", well=False)


def test_methods_that_fail_by_chance_cost_no_node() -> None:
    drawn, lost = random.Random(7), 0
    for _ in range(100):
        nodes = BadNodes()
        told = [
            run(nodes, str(number), drawn.choice("abcd"), well=drawn.random() > 0.3)
            for number in range(200)
        ]
        lost += any(told)
    assert lost <= 2


def test_one_trial_that_dies_again_and_again_is_no_fault_of_its_node() -> None:
    nodes = BadNodes()
    for number in range(20):
        run(nodes, f"good {number}", "a", well=True)
    assert [run(nodes, "too large", "b", well=False) for _ in range(9)] == [[]] * 9
