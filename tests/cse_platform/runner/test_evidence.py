import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from in_process import NewDrive, new_spec
from sqlalchemy import update
from stored_trials import write_journal
from sweep_events import trial_life

from cse_platform.errors import NotFoundError, SweepRefusedError
from cse_platform.leaderboard.past_searches import leading_configurations
from cse_platform.numbers import percent
from cse_platform.runner.prior_results import StageValues, fill_in_stage_values
from cse_platform.search.confirmation import chosen_trials
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import ConfigurationRecord
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import leader_notes
from cse_platform.sweep.stores import SweepStores, sweep_stores
from cse_platform.tracking.events import DriverMessage, SweepFinished, SweepStarted
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal


def colder_is_better(values: Any, seed: int, step: int) -> float:
    return float(0.8 - 0.5 * values["temperature"])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, shared_drive: NewDrive) -> Any:
    """A complete sweep of twelve trials; the best is the coldest."""
    spec = new_spec(sweep="earlier", search={"trials": 12, "seed": 5})
    folder = tmp_path_factory.mktemp("earlier")
    return shared_drive(folder, spec, score=colder_is_better).run().close()


@pytest.fixture
def earlier(complete: Any, tmp_path: Path) -> Any:
    """The same, with its stores in the test's own folder."""
    shutil.copytree(complete.folder, tmp_path, dirs_exist_ok=True)
    return complete


def with_budget(spec: Any, trials: int) -> Any:
    search = spec.search.model_copy(update={"trials": trials})
    return spec.model_copy(update={"search": search})


def tried(drive: Any) -> list[float]:
    return [trial.values["temperature"] for trial in drive.trials]


def coldest(drive: Any, count: int) -> list[float]:
    return sorted(tried(drive))[:count]


def test_the_best_of_earlier_sweeps_are_tried_first(start, earlier) -> None:
    spec = new_spec(search={"trials": 4, "start_from": ["leaderboard"]})
    drive = start(spec, folder="own", leaderboard="", score=colder_is_better).run()
    best = coldest(earlier, 3)
    assert tried(drive)[:3] == best
    assert not set(tried(drive)[3:]) & set(best)
    assert leader_notes(spec, drive.history.leaders)[0].startswith(
        "start_from: number 1 on mini, of earlier (dev "
    )


def test_after_a_resume_no_other_is_tried(start, earlier) -> None:
    spec = new_spec(
        search={"trials": 4, "start_from": ["leaderboard"]},
        space={"temperature": {"low": 0.005, "high": 1.0, "log": True}},
    )
    own = {"folder": "own", "leaderboard": "", "score": colder_is_better}
    first = start(spec, **own)
    (plan,) = first.start()
    first.report(plan.key, 0)
    first.close()
    cold = {"search": {"trials": 3}, "space": {"temperature": {"low": 0.001, "high": 0.01}}}
    better = start(sweep="b", **cold, folder="b", leaderboard="", score=colder_is_better)
    better.run().close()
    assert coldest(better, 1) < coldest(earlier, 1)
    again = start(spec, **own).run().close()
    assert tried(again)[:3] == coldest(earlier, 3)
    assert len(tried(again)) == 4 and tried(again)[3] not in tried(better)
    extended = start(with_budget(spec, 6), **own).run()
    assert len(set(tried(extended))) == len(tried(extended)) == 6


def test_which_configurations_lead(start, earlier) -> None:
    drive = start(folder="own", leaderboard="")
    asked = {
        "method": "cheap", "backbone": "mini", "but": "small", "limit": 2,
        "dev_identity": drive.state.identity.dev["identity"],
    }  # fmt: skip
    with drive.state.leaderboard.session() as session:
        found = leading_configurations(session, **asked)
        assert [one.values["temperature"] for one in found] == coldest(earlier, 2)
        assert {(one.sweep, one.backbone, one.seeds) for one in found} == {("earlier", "mini", 1)}
        elsewhere = leading_configurations(session, **asked | {"backbone": "bert-base"})
        assert elsewhere == found
        assert leading_configurations(session, **asked | {"dev_identity": "other"}) == found
        assert leading_configurations(session, **asked | {"but": "earlier"}) == []
        assert leading_configurations(session, **asked | {"method": "toy"}) == []


LEARNING = {"sampler": "tpe", "trials": 8, "learn_from": ["earlier"]}


def test_the_best_encoder_that_a_sweep_takes_is_named_and_kept(start, earlier) -> None:
    """It is chosen at the first start, though the sweep's own trials are better at the next."""
    best = max(earlier.trials, key=lambda trial: trial.best_value)
    trial = f"earlier#{best.number} (dev {percent(best.best_value)})"
    said = f"the best cheap on mini, chosen at the first start, is {trial}"
    gate = {"best": {"method": "cheap", "backbone": "mini"}}
    for trials in (2, 4):
        late = start(
            sweep="late", folder="late", leaderboard="", fixed={"gate": gate}, reuse=False,
            search={"trials": trials}, score=lambda *of: 0.9,
        )  # fmt: skip
        notes = [event.text for event in late.events() if isinstance(event, DriverMessage)]
        assert notes == [said] * (trials // 2)
        late.run().close()


@pytest.fixture
def learning(start: NewDrive, earlier: Any) -> NewDrive:
    how = {"leaderboard": "", "score": colder_is_better, "reuse": False}
    return lambda name, **changes: start(
        folder=name, **how, **{"sweep": name, "search": LEARNING} | changes
    )


def test_the_sampler_learns_from_other_sweeps(learning, earlier) -> None:
    """Its first trials are where the other's best were; alone it begins at random."""
    means = []
    for name, search in (("alone", {**LEARNING, "learn_from": []}), ("taught", LEARNING)):
        drive = learning(name, search=search).run()
        means.append(fmean(tried(drive)))
        assert len(tried(drive)) == 8
    assert 2 * means[1] < means[0]
    # What is learned is no trial of the sweep.
    drive.assert_sound()
    study = drive.study()
    assert [trial.number for trial in study.trials] == list(range(8))
    best_first = sorted(earlier.trials, key=lambda trial: -trial.best_value)
    learned = [f"earlier#{one.number}" for one in best_first]
    assert [one.source for one in drive.history.learned] == learned
    assert [trial.number for trial in drive.trials] == list(range(8))
    assert study.best_value == max(t.best_value for t in drive.trials)


def test_after_a_kill_the_sampler_knows_the_same(learning, start, earlier) -> None:
    """Though the other sweep has gone on: the configurations are those of an undisturbed sweep."""
    search = LEARNING | {"trials": 5}
    calm, cut = learning("calm", search=search).run(), learning("cut", search=search)
    for _ in range(2):
        cut.finish(*[plan.key for plan in cut.start()])
    (plan,) = cut.start()
    cut.report(plan.key, 0)
    cut.close()
    start(with_budget(earlier.spec, 15), score=colder_is_better).run().close()
    assert tried(learning("cut", search=search).run()) == tried(calm)


def test_of_other_code_the_order_alone_counts(learning, earlier, tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'leaderboard.db'}"
    with open_store(url) as store, store.writing() as session:
        session.execute(update(ConfigurationRecord).values(code="before the bug was mended"))
    learned = learning("mended").history.learned
    assert len(learned) == 12 and not any(one.alike for one in learned)


def test_what_can_be_learned(learning, earlier) -> None:
    """What lies in the space; what both have fixed may differ, and then the order alone counts."""
    narrow = {"temperature": {"low": 0.01, "high": 0.1, "log": True}, "kind": ["a", "b"]}
    inside = learning("inside", space=narrow).history.learned
    assert [one.values["temperature"] for one in inside] == [
        value for value in coldest(earlier, 12) if value <= 0.1
    ]
    assert all(one.alike for one in inside) and inside[0].score > 0
    kinds = {t.number: t.values["kind"] for t in earlier.trials}
    fixed = learning("fixed", space={"temperature": narrow["temperature"]}).history.learned
    assert fixed and {kinds[int(one.source.split("#")[1])] for one in fixed} == {"a"}
    other = learning("other", space=narrow, fixed={"extra": {"x": 1.0}}).history.learned
    assert len(other) == len(inside) and not any(one.alike for one in other)
    with pytest.raises(NotFoundError, match=r"did you mean 'earlier'\?"):
        learning("unknown", search=LEARNING | {"learn_from": ["earlyer"]})
    with pytest.raises(SweepRefusedError, match="none of its 12 complete configurations"):
        learning("elsewhere", space={"temperature": {"low": 2.0, "high": 3.0}})


TAKES = {"kind": "b", "depth": {"best_of": "early", "example": 1}}


@pytest.fixture
def spec() -> SweepSpec:
    return new_spec(sweep="late", fixed=TAKES, space={"temperature": [0.05, 0.1]})


@pytest.fixture
def places(spec: SweepSpec, tmp_path: Path) -> SweepStores:
    return sweep_stores(spec, runs=tmp_path)


@pytest.fixture
def early(places: SweepStores) -> Callable[..., History]:
    """Writes the journal of the stage `early`: trials with a depth and the dev scores of seeds."""

    def write(
        *trials: tuple[int | None, list[float]], state: str = "COMPLETE", **changes: Any
    ) -> History:
        spec = new_spec(sweep="early", space={"depth": [1, 2, 3]}, **changes)
        said = {"method": spec.method, "backbone": spec.backbone, "provenance": {}}
        events: list[Any] = [SweepStarted(sweep="early", spec=spec.model_dump(mode="json"), **said)]
        for depth, scores in trials:
            values = {"temperature": 0.05} if depth is None else {"depth": depth}
            what = {"sweep": "early", "configuration": f"c{depth}", "values": values}
            for seed, score in enumerate(scores):
                events += trial_life(len(events), {2: score}, seed=seed, **what)
        end = SweepFinished(sweep="early", state=state)
        write_journal(places.journal_of("early"), [*events, end])
        return History(events)

    return write


@pytest.fixture
def find(spec: SweepSpec, places: SweepStores) -> Callable[..., Any]:
    """Fills in what the stage, as it was started with these values, takes now."""

    def find(**fixed: Any) -> Any:
        said = {"method": spec.method, "backbone": spec.backbone, "provenance": {}}
        stored = spec.model_dump(mode="json") | {"fixed": {"kind": "b"} | fixed}
        started = [SweepStarted(sweep=spec.sweep, spec=stored, **said)] if fixed else []
        return fill_in_stage_values(spec, History(started), places)

    return find


def test_the_value_is_that_of_what_the_stage_takes_for_the_best(early, find) -> None:
    """Two seeds go before a single lucky one, as on the leaderboard and for `evaluate: top`."""
    history = early((1, [0.9]), (2, [0.5, 0.7]), (3, [0.6, 0.5]))
    found = find()
    assert found.spec.fixed == {"kind": "b", "depth": 2}
    (first, _) = chosen_trials(history, top=1)
    assert first.values["depth"] == 2
    assert found.notes() == [f"depth=2 is the best depth of 'early', trial {first.number}"]


def test_what_is_not_complete_has_found_nothing(early, spec, find) -> None:
    assert find() == StageValues(spec, {}, {})
    early((1, [0.9]), state="INTERRUPTED")
    assert find() == StageValues(spec, {}, {})
    found = find(depth=3)
    assert found.spec.fixed["depth"] == 3
    assert found.origins == {"depth": "the best depth of 'early' when it was started"}


def test_a_sweep_that_was_started_keeps_its_value_and_refuses_another(early, find) -> None:
    early((1, [0.9]), (2, [0.5]))
    assert find(depth=1).spec.fixed["depth"] == 1
    with pytest.raises(SweepRefusedError) as refused:
        find(depth=2)
    assert str(refused.value) == (
        "sweep 'late' was started with fixed.depth = 2, and now the best depth of 'early' is 1 "
        "(trial 1); write depth: 2 under its 'fixed' to go on with that, or another name after its "
        "'sweep' to run it with the new value"
    )


def test_what_has_no_best_value_is_refused(early, find) -> None:
    early()
    with pytest.raises(SweepRefusedError, match="takes the best depth of 'early', but no trial"):
        find()


def test_a_value_that_takes_no_part_in_the_best_is_refused(early, find) -> None:
    early((None, [0.9]), (2, [0.5]))
    told = r"it has no effect in the best configuration there \(trial 1\); give the value itself"
    with pytest.raises(SweepRefusedError, match=told):
        find()


def test_a_value_that_means_nothing_here_is_refused(early, places) -> None:
    """What lies between the ends of a range is only known when it is found."""
    early((0, [0.9]))
    strict = new_spec(sweep="late", fixed=TAKES, space={"temperature": [0.1]})
    with pytest.raises(SweepRefusedError, match=r"for depth=0 is the best depth of 'early', trial"):
        fill_in_stage_values(strict, History(), places)


def test_a_copied_runs_folder_finds_its_own_encoder(tmp_path) -> None:
    """A stage that takes the encoder of an earlier one is started with its folder."""
    runs = tmp_path / "runs"
    spec = new_spec(sweep="late", fixed={"gate": {"best_of": "early", "example": "e"}})
    places = sweep_stores(spec, runs=runs)
    encoder = f"{places.models}/0123"
    said = {"method": spec.method, "backbone": spec.backbone, "provenance": {}}
    stored = new_spec(sweep="early", fixed={"gate": {"best": {}}}).model_dump(mode="json")
    best = {"best:cheap/mini": encoder}
    start = SweepStarted(sweep="early", spec=stored, best=best, **said)
    values = {"gate": encoder, "temperature": 0.05}
    life = trial_life(0, {2: 0.5}, sweep="early", configuration="c", values=values)
    end = SweepFinished(sweep="early", state="COMPLETE")
    write_journal(places.journal_of("early"), [start, *life, end])
    first = fill_in_stage_values(spec, History(), places)
    assert first.spec.fixed["gate"] == encoder
    stored = first.spec.model_dump(mode="json")
    start = SweepStarted(sweep="late", spec=stored, best=first.best, **said)
    write_journal(places.journal, [start])
    copied = sweep_stores(spec, runs=runs.rename(tmp_path / "moved"))
    history = History(event for _, event in read_journal(copied.journal))
    again = fill_in_stage_values(spec, history, copied)
    assert again.spec.fixed == history.spec["fixed"] == {"gate": f"{copied.models}/0123"}
