import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from in_process import new_spec
from stored_trials import trials_of

from cse_platform.leaderboard import Leaderboard
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.tracking.events import TrialReused

FOUR: dict[str, Any] = {"kind": ["a", "b"], "temperature": [0.1, 0.2]}


def by_temperature(values: Mapping[str, Any], seed: int, step: int) -> float:
    """Higher is better, a little later, and seeds differ by little."""
    return float(values["temperature"]) / 2 + step / 1000 + seed % 2 / 10_000


def test_a_larger_budget_extends_and_a_smaller_one_starts_nothing(start) -> None:
    start(search={"trials": 2}).run().close()
    second = start(search={"trials": 3}).run().close()
    assert second.outcome() == start(search={"trials": 3}, folder="other").run().outcome()
    third = start(search={"trials": 1})
    assert third.start() == [] and third.state.finished


SLOW = ("tpe", "gp", "cmaes", "qmc")


@pytest.mark.parametrize(
    "sampler", ["random", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_a_configuration_that_is_proposed_again_gets_another_seed(start, sampler) -> None:
    spec = new_spec(space={"kind": ["a", "b"]}, search={"sampler": sampler, "trials": 4})
    first = start(spec)
    for _ in range(3):
        first.finish(*[plan.key for plan in first.start()])
    first.close()
    drive = start(spec).run().assert_sound()
    repeats = [t for t in drive.trials if t.role == "repeat"]
    assert len(drive.outcome()) == 4  # each (configuration, seed) once
    assert sorted(t.seed for t in repeats) == [43, 43] or [t.seed for t in repeats] == [43, 44]
    for trial in repeats:
        closed = drive.study().trials[trial.search_number]
        assert closed.state.name == "FAIL"
        assert closed.user_attrs["closed"] == f"proposed before; run with seed {trial.seed} instead"


def test_the_best_configurations_get_their_missing_seeds(start) -> None:
    """Seed 42 is there already; a configuration's value is the mean over its seeds."""
    grid = {"space": FOUR, "search": {"sampler": "grid", "trials": None}}
    seeds = {"search": 42, "confirm": {"top": 2, "seeds": [42, 1, 2]}}
    drive = start(**grid, seeds=seeds, score=by_temperature, capacity=2).run().assert_sound()
    further = [t for t in drive.trials if t.role == "confirm"]
    tried = [(t.values["kind"], t.values["temperature"], t.seed) for t in further]
    assert sorted(tried) == [("a", 0.2, 1), ("a", 0.2, 2), ("b", 0.2, 1), ("b", 0.2, 2)]
    assert {t.search_number for t in further} == {None}
    assert {t.searched for t in further} == {("kind", "temperature")}


def test_nothing_is_confirmed_while_the_search_still_runs(start) -> None:
    drive = start(seeds={"confirm": {"top": 1, "seeds": [0]}}, search={"trials": 2}, capacity=3)
    first, second = drive.start()
    drive.finish(second.key)
    assert drive.start() == []
    drive.finish(first.key)
    (further,) = drive.start()
    assert (further.role, further.seed) == ("confirm", 0)
    assert drive.planner.next() is None
    assert not drive.state.finished  # it may crash, and would have to go on


def test_a_choice_that_the_method_rewrites_is_confirmed_as_it_was(start) -> None:
    """`depth` depends on a list; and what is inactive is not among the searched settings."""
    space = {
        "parts": [["x"], ["x", "y"]],
        "depth": {"low": 3, "high": 9, "when": {"parts": [["x", "y"]]}},
    }
    search = {"trials": 3, "start_from": [{"parts": ["x"]}, {"parts": ["x", "y"], "depth": 5}]}
    drive = start(space=space, search=search, seeds={"confirm": {"top": 3, "seeds": [0]}}).run()
    configurations = drive.history.configurations().values()
    for same in configurations:
        assert {t.seed for t in same} >= {42, 0}
        for trial in same:
            assert ("depth" in trial.searched) == (len(trial.values["parts"]) == 2)
    assert {len(same[0].values["parts"]) for same in configurations} == {1, 2}


def test_what_another_sweep_has_completed_is_taken_over_and_stays(start) -> None:
    seeds = {"confirm": {"top": 1, "seeds": [0]}}
    first = start(seeds=seeds, folder="first").run().close()
    again = {"sweep": "again", "seeds": seeds, "folder": "second", "leaderboard": "first"}
    second = start(**again)
    assert second.start() == [] and second.state.finished
    assert second.outcome() == first.outcome()
    second.assert_sound().close()
    assert sum(isinstance(event, TrialReused) for event in second.events()) == 4
    with first.state.leaderboard.session() as session:
        mine, others = trials_of(session, "small"), trials_of(session, "again")
    assert [row.key for row in mine] == [row.key for row in others]
    assert [row.role for row in others] == ["search", "search", "search", "confirm"]
    longer = start(**again, search={"trials": 4}).run().assert_sound()
    own = [trial for trial in longer.trials if trial.reused_from is None]
    assert own and second.outcome().items() <= longer.outcome().items()


def test_null_is_a_value_that_a_search_chose_and_not_one_that_is_inactive(start) -> None:
    """Whether its trial is new, taken over from a sweep that did not search it, or replayed."""
    grid = {"sampler": "grid", "trials": None}
    start(sweep="plain", space={"temperature": [0.1]}, search=grid, folder="first").run().close()
    kind = {"choices": ["a", "b"], "when": {"depth": None}}
    again = {
        "sweep": "again",
        "space": {"depth": [None, 3], "kind": kind, "temperature": [0.1]},
        "search": grid,
        "folder": "second",
        "leaderboard": "first",
    }
    first = start(**again).run().close()
    assert [trial.reused_from for trial in first.trials].count("plain") == 1
    second = start(**again)
    told = [trial.params for trial in second.study().trials]
    shown = Leaderboard(second.state.leaderboard).search("again").trials
    for values in (told, [t.searched_values for t in second.trials]):
        assert sorted((v["depth"] or 0, v.get("kind", "")) for v in values) == [
            (0, "a"), (0, "b"), (3, ""),
        ]  # fmt: skip
    assert [t.searched_values for t in shown] == [t.searched_values for t in second.trials]
    space = {"depth": [None, 3], "temperature": [0.1]}
    search = {"sampler": "tpe", "trials": 1, "learn_from": ["again"]}
    third = start(sweep="third", space=space, search=search, folder="third", leaderboard="first")
    learned = {(one.values["depth"], one.alike) for one in third.history.learned}
    assert learned == {(None, True), (3, True)}


def test_what_another_sweep_has_pruned_is_run(start) -> None:
    first = start(folder="first")
    (pruned,) = first.start()
    for _ in range(2):
        first.advance(pruned.key)
    live = first.state.live[pruned.key]
    first.results.stop(live)
    first.results.record_end(live)
    assert pruned.state == "PRUNED" and pruned.best_value is not None
    first.close()
    second = start(sweep="again", folder="second", leaderboard="first")
    (again,) = second.start()
    assert (again.key, again.reused_from) == (pruned.key, None)


def test_a_trial_that_means_something_else_now_is_closed(start, cheap) -> None:
    """Weights or data changed while the sweep ran, and a trial whose process died would go on."""
    spec = new_spec(search={"trials": 2})
    drive = start(spec)
    (plan,) = drive.start()
    drive.report(plan.key, 0)
    drive.state.identity = Identity(spec, cheap, DevData(spec))
    drive.state.identity.corpus_sha256 = "another corpus"
    drive.fail(plan.key, "its process died", crashed=True)
    (fresh,) = drive.start()
    assert fresh.number == 1
    given_up = drive.history.trials[plan.key]
    assert given_up.state == "FAIL"
    assert "cse-sweep retry small 0 " in given_up.error


@pytest.mark.parametrize("fault", ["is gone", "is a link or behind one"])
def test_a_checkpoint_that_cannot_be_read_starts_the_trial_over(start, caplog, fault) -> None:
    first = start(search={"trials": 1})
    (plan,) = first.start()
    for _ in range(2):
        first.advance(plan.key)
    first.close()
    if fault == "is gone":
        shutil.rmtree(first.checkpoints)
    else:  # a link to a private file, as a runs folder from elsewhere can have
        (Path(first.history.trials[plan.key].checkpoint[1]) / "state").symlink_to("/etc/passwd")
    second = start(search={"trials": 1})
    (again,) = second.start()
    assert (again.key, again.resumed_from, again.checkpoint) == (plan.key, 0, None)
    assert "trial 0 starts over" in caplog.text and fault in caplog.text
    second.run().assert_sound()
    assert sorted(second.history.trials[plan.key].curve) == [0, 2, 4]


def fail_all(drive: Any, *causes: str) -> None:
    """Each trial that the planner wants fails of the next cause, as long as there is one."""
    for cause in causes:
        for plan in drive.start()[:1]:
            drive.fail(plan.key, cause, crashed=False)
    drive.start()


def test_a_search_of_which_all_trials_fail_alike_is_given_up(start) -> None:
    four = {"trials": 4}
    drive = start(search=four)
    fail_all(drive, *["no GPU"] * 4)
    assert [trial.state for trial in drive.trials] == ["FAIL"] * 3
    assert drive.state.gave_up == "no GPU"
    drive.close()
    again = start(search=four)
    assert (again.start(), again.state.gave_up) == ([], "no GPU")
    again.close()
    mended = start(search=four, packages={"driver": "2"}).run()
    assert {trial.state for trial in mended.trials} == {"COMPLETE"}


def test_processes_that_die_alike_are_a_reason_to_give_up_whatever_they_printed(start) -> None:
    drive = start(search={"trials": 8, "give_up_after": 2})
    for death in range(2 * (1 + 3)):  # each goes on three times
        (plan,) = drive.start()
        drive.fail(plan.key, f"SIGKILL; it printed last: loss {death}", crashed=True)
    assert (drive.start(), drive.state.gave_up) == ([], "SIGKILL; it printed last: loss 3")


def test_other_failures_and_what_runs_still_are_no_reason_to_give_up(start) -> None:
    drive = start(search={"trials": 8})
    fail_all(drive, "a", "a", "b")
    drive.finish(*[plan.key for plan in drive.start()])
    fail_all(drive, *["a"] * 4)
    assert drive.state.gave_up is None
    other = start(search={"trials": 4, "give_up_after": 2}, capacity=3, folder="other")
    good, *bad = other.start()
    for plan in bad:
        other.fail(plan.key, "no GPU", crashed=False)
    assert (other.start(), other.state.gave_up) == ([], None)
    other.finish(good.key)
    assert len(other.start()) == 1
