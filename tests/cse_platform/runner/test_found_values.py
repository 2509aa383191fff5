"""The values that a stage takes from an earlier one when it starts, and what is said of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from in_process import NewSpec

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.prior_results import StageValues, fill_in_stage_values
from cse_platform.search.confirmation import chosen_trials
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores, sweep_stores
from cse_platform.tracking.events import SweepFinished, SweepStarted
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal, read_journal

Stage = Callable[..., History]
Find = Callable[..., Any]

TAKES = {"kind": "b", "depth": {"best_of": "early", "example": 1}}


@pytest.fixture
def spec(new_spec: NewSpec) -> SweepSpec:
    return new_spec(sweep="late", fixed=TAKES, space={"temperature": [0.05, 0.1]})


@pytest.fixture
def places(spec: SweepSpec, tmp_path: Path) -> SweepStores:
    return sweep_stores(spec, runs=tmp_path, environment={})


@pytest.fixture
def early(new_spec: NewSpec, places: SweepStores, trial_life: Callable[..., Any]) -> Stage:
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
        with Journal(places.journal_of("early")) as journal:
            for event in [*events, SweepFinished(sweep="early", state=state)]:
                journal.append(event)
        return History(events)

    return write


@pytest.fixture
def find(spec: SweepSpec, places: SweepStores) -> Find:
    """Fills in what the stage, as it was started with these values, takes now."""

    def find(**fixed: Any) -> Any:
        said = {"method": spec.method, "backbone": spec.backbone, "provenance": {}}
        stored = spec.model_dump(mode="json") | {"fixed": {"kind": "b"} | fixed}
        started = [SweepStarted(sweep=spec.sweep, spec=stored, **said)] if fixed else []
        return fill_in_stage_values(spec, History(started), places)

    return find


def test_the_value_is_that_of_what_the_stage_takes_for_the_best(early, spec, find) -> None:
    """Two seeds go before a single lucky one, as on the leaderboard and for `evaluate: top`."""
    history = early((1, [0.9]), (2, [0.5, 0.7]), (3, [0.6, 0.5]))
    found = find()
    assert found.spec.fixed == {"kind": "b", "depth": 2}
    (first, _) = chosen_trials(history, spec, top=1)
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
    early((1, [0.9]), search={"constraints": ["seconds <= 0.1"]})
    with pytest.raises(SweepRefusedError, match="takes the best depth of 'early', but no complete"):
        find()


def test_a_value_that_takes_no_part_in_the_best_is_refused(early, find) -> None:
    early((None, [0.9]), (2, [0.5]))
    told = r"it has no effect in the best configuration there \(trial 1\); give the value itself"
    with pytest.raises(SweepRefusedError, match=told):
        find()


def test_a_value_that_means_nothing_here_is_refused(early, new_spec, places) -> None:
    """What lies between the ends of a range is only known when it is found."""
    early((0, [0.9]))
    strict = new_spec(sweep="late", fixed=TAKES, space={"temperature": [0.1]})
    with pytest.raises(SweepRefusedError, match=r"for depth=0 is the best depth of 'early', trial"):
        fill_in_stage_values(strict, History(), places)


def test_a_copied_runs_folder_finds_its_own_encoder(new_spec, trial_life, tmp_path) -> None:
    """A stage that takes the encoder of an earlier one is started with its folder."""
    runs = tmp_path / "runs"
    spec = new_spec(sweep="late", fixed={"gate": {"best_of": "early", "example": "e"}})
    places = sweep_stores(spec, runs=runs, environment={})
    encoder = f"{places.models}/0123"
    said = {"method": spec.method, "backbone": spec.backbone, "provenance": {}}
    with Journal(places.journal_of("early")) as journal:
        stored = new_spec(sweep="early", fixed={"gate": {"best": {}}}).model_dump(mode="json")
        best = {"best:cheap/mini": encoder}
        journal.append(SweepStarted(sweep="early", spec=stored, best=best, **said))
        values = {"gate": encoder, "temperature": 0.05}
        for event in trial_life(0, {2: 0.5}, sweep="early", configuration="c", values=values):
            journal.append(event)
        journal.append(SweepFinished(sweep="early", state="COMPLETE"))
    first = fill_in_stage_values(spec, History(), places)
    assert first.spec.fixed["gate"] == encoder
    with Journal(places.journal) as journal:
        stored = first.spec.model_dump(mode="json")
        journal.append(SweepStarted(sweep="late", spec=stored, best=first.best, **said))
    copied = sweep_stores(spec, runs=runs.rename(tmp_path / "moved"), environment={})
    history = History(event for _, event in read_journal(copied.journal))
    again = fill_in_stage_values(spec, history, copied)
    assert again.spec.fixed == history.spec["fixed"] == {"gate": f"{copied.models}/0123"}
