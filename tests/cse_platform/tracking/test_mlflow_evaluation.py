from collections.abc import Sequence
from datetime import timedelta
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mlflow_history import client_of, forget_position
from sweep_events import NOON, opening, sweep_started, trial_evaluated, trial_life

from cse_methods.evaluation.results import Evaluation, Examples, Score
from cse_platform.stores.mlflow import tags
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.tracking import events
from cse_platform.tracking.events import Event, SweepFinished
from cse_platform.tracking.journal import Journal
from cse_platform.tracking.packing import (
    compressed,
    evaluation_event,
    pack,
    unpack_gold,
    unpack_values,
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory, empty_mlflow) -> str:
    """One store; each test has a sweep of its own in it."""
    return empty_mlflow(tmp_path_factory.mktemp("mlflow") / "mlflow.db")


def complete(sweep: str) -> list[Event]:
    """A complete sweep of two trials, c0-42 with its best step at 20."""
    return [
        sweep_started(sweep),
        *trial_life(0, {10: 0.5, 20: 0.75, 30: 0.6}, sweep=sweep),
        *trial_life(1, {10: 0.5}, sweep=sweep),
        SweepFinished(sweep=sweep, state="COMPLETE"),
    ]


def found(uri: str, sweep: str) -> list[Any]:
    """The runs of the first trial of a sweep."""
    client = client_of(uri)
    experiment = client.get_experiment_by_name("cse").experiment_id
    mine = f"tags.trial = 'c0-42' AND tags.sweep = '{sweep}'"
    return list(client.search_runs([experiment], mine))


def told(uri: str, happened: Sequence[Event], *, journal: str) -> dict[str, Any]:
    """The first trial of the sweep, as MLflow shows it after these events."""
    MLflowMirror(uri).apply(journal, list(enumerate(happened, start=1)))
    client, [run] = client_of(uri), found(uri, happened[0].sweep)
    return {
        "status": run.info.status,
        "ended": run.info.end_time,
        "tags": run.data.tags,
        "curves": {
            name: [(p.step, p.value, p.timestamp) for p in client.get_metric_history(
                run.info.run_id, name
            )]
            for name in run.data.metrics
        },
    }  # fmt: skip


def test_scores_stand_at_the_kept_step(uri) -> None:
    before = told(uri, complete("kept"), journal="kept")
    scores = {"test/sts12_spearman": 0.5, "test/mrpc_f1": 0.7, "dev/stsb_uniformity": -2.5}
    scored = trial_evaluated("c0-42", scores, sweep="kept")
    toy = trial_evaluated("c0-42", {"test/sts12_spearman": 0.9}, sweep="kept", identity="e0")
    on_builtin = toy.model_copy(update={"source": "builtin"})
    after = told(uri, [on_builtin, scored], journal="kept later")
    noon = int(NOON.timestamp() * 1000)
    assert after["curves"] == before["curves"] | {
        "test/builtin/sts12_spearman": [(20, 0.9, noon)],
        "test/sts12_spearman": [(20, 0.5, noon)],
        "test/mrpc_f1": [(20, 0.7, noon)],
        "evaluation/stsb_uniformity": [(20, -2.5, noon)],
    }
    assert (after["status"], after["ended"]) == ("FINISHED", before["ended"])
    identities = {f"evaluation.{task}": "e1" for task in ("sts12", "mrpc", "stsb")}
    assert after["tags"] == before["tags"] | identities


def test_the_first_opening_is_told_once(uri) -> None:
    happened = [
        *complete("again"),
        opening(sweep="again", hours=1),
        trial_evaluated("c0-42", {"test/sts12_spearman": 0.5}, sweep="again"),
        opening(sweep="again", hours=2, who="bob"),
    ]
    once = told(uri, happened, journal="again")
    assert once["tags"]["tests_opened"] == "2030-01-01T13:00:00+00:00 ann"
    assert once["status"] == "FINISHED"
    forget_position(uri, "again")
    assert told(uri, happened, journal="again") == once


def test_a_later_evaluation_is_the_last_value(uri) -> None:
    later = {"sweep": "later", "time": NOON + timedelta(hours=1), "identity": "e2"}
    happened = [
        *complete("later"),
        trial_evaluated("c0-42", {"test/mr_accuracy": 0.75}, sweep="later"),
        trial_evaluated("c0-42", {"test/mr_accuracy": 0.5, "test/cr_accuracy": nan}, **later),
    ]
    shown = told(uri, happened, journal="later")
    assert [value for _, value, _ in shown["curves"]["test/mr_accuracy"]] == [0.75, 0.5]
    assert isnan(shown["curves"]["test/cr_accuracy"][0][1])
    assert shown["tags"]["evaluation.mr"] == "e2"
    # The identity shown is that of the main metric.
    scored = trial_evaluated(
        "c0-42", {"test/sts12_spearman": 0.5}, sweep="later", identity="cosine"
    )
    ranked = trial_evaluated("c0-42", {"test/sts12_kcc": 0.5}, sweep="later", identity="ranking")
    both = scored.model_copy(update={"scores": (*scored.scores, *ranked.scores)})
    assert told(uri, [both], journal="main")["tags"]["evaluation.sts12"] == "cosine"


COSINES = np.array([0.1, -1.0, 1.0], dtype=np.float32)
GOLD = np.array([0.2, 3.6, 5.0])


def examples(**changes: object) -> Examples:
    given: dict[str, object] = {
        "task": "sts12",
        "split": "test",
        "identity": "e1",
        "statistic": "spearman",
    }
    given |= {"values": COSINES, "gold": GOLD, "subsets": {"MSRvid": 2, "MSRpar": 1}}
    return Examples(**(given | {"data_sha256": "d1"} | changes))  # type: ignore[arg-type]


@settings(max_examples=20)
@given(
    arrays(np.float32, st.integers(0, 50), elements=st.floats(-1, 1, width=32)),
    arrays(np.float64, st.integers(0, 50), elements=st.floats(0, 5)),
)
def test_cosines_and_gold_come_back_to_the_last_bit_from_any_byte_order(cosines, gold) -> None:
    found = unpack_values(compressed(pack(cosines)))
    assert found.dtype == np.float32
    assert np.array_equal(found, cosines)
    for order in "<>":
        found = unpack_gold(compressed(pack(gold.astype(f"{order}f8"))))
        assert found.dtype == np.float64
        assert np.array_equal(found, gold)


def test_values_without_gold_and_those_of_earlier_versions_are_read() -> None:
    accuracies = examples(task="mteb:Banking77", statistic="mean", gold=None)
    evaluation = Evaluation(tasks=frozenset(), scores=(), examples=(accuracies, examples()))
    event = evaluation_event(sweep="s", trial="t", evaluation=evaluation, source="hub")
    told = event.model_dump(mode="json")
    assert told["examples"][0]["gold"] is None
    earlier = told.pop("examples")[1:]
    earlier[0] = {name: value for name, value in earlier[0].items() if name != "statistic"}
    earlier[0]["cosines"] = earlier[0].pop("values")
    read = events.EVENT.validate_python({**told, "similarities": earlier})
    assert isinstance(read, events.TrialEvaluated) and read.examples == event.examples[1:]


def test_names_of_tasks_stay_apart_in_mlflow() -> None:
    from mlflow.utils.validation import _validate_metric_name

    task = "test/benchmark:MTEB(eng, v2)_main_score"
    name = tags.clean_name(task)
    _validate_metric_name(name)
    assert name.replace("-:", "(").replace(":-", ")").replace(".:", ",") == task
    assert tags.clean_name("test/mteb:MassiveIntent/de_main_score") == (
        "test/mteb:MassiveIntent/de_main_score"
    )


def test_an_evaluation_survives_the_journal(tmp_path) -> None:
    evaluation = Evaluation(
        tasks=frozenset({"sts12", "geometry"}),
        scores=(
            Score("sts12", "test", "spearman", 0.1 + 0.2, "e1"),
            Score("stsb", "dev", "uniformity", float("nan"), "e2"),
        ),
        examples=(examples(),),
        identities={"e1": {"pooler": "cls", "lengths": [128]}},
        seconds={"encoding": 1.5},
    )
    event = evaluation_event(sweep="s", trial="t", evaluation=evaluation, source="hub")
    opened = opening("t", sweep="s")
    with Journal(tmp_path / "journal.jsonl") as journal:
        for one in (opened, event):
            journal.append(one)
        told, back = (one for _, one in journal.read())
    assert told == opened
    assert isinstance(back, events.TrialEvaluated)
    assert back.tasks == ("geometry", "sts12")
    assert repr(back.scores) == repr(event.scores)  # a NaN does not equal itself
    assert back.model_copy(update={"scores": event.scores}) == event
    assert back.scores[0].value == 0.30000000000000004
    [pairs] = back.examples
    assert np.array_equal(unpack_values(compressed(pairs.values)), COSINES)
    assert np.array_equal(unpack_gold(compressed(pairs.gold)), GOLD)
    assert list(pairs.subsets.items()) == [("MSRvid", 2), ("MSRpar", 1)]


def test_counts_that_differ_are_refused() -> None:
    refused: list[tuple[dict[str, object], str]] = [
        ({"values": COSINES[:2]}, "2, 3, 3"),
        ({"gold": GOLD[:1]}, "3, 1, 3"),
        ({"subsets": {"MSRvid": 2}}, "3, 3, 2"),
    ]
    for changes, counts in refused:
        pairs = (examples(**changes),)
        evaluation = Evaluation(tasks=frozenset(), scores=(), examples=pairs)
        with pytest.raises(ValueError, match=rf"^sts12: .* must be as many, got {counts}$"):
            evaluation_event(sweep="s", trial="t", evaluation=evaluation, source="hub")
