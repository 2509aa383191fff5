import json
from math import inf, isnan, nan

import pytest
from mlflow_history import (
    BEGIN,
    CONFIGURATION,
    DEV,
    HASH,
    HISTORY,
    JOURNAL,
    after,
    client_of,
    contents,
    finished,
    forget_position,
    numbered,
    point,
    runs_in,
    sweep_finished,
    sweep_started,
    trial_started,
)

from cse_platform.errors import NotFoundError, StoreError
from cse_platform.stores.mlflow.metrics import best_metric, reused_metrics, trial_metrics
from cse_platform.stores.mlflow.mirror import MLflowMirror
from cse_platform.stores.mlflow.run_writer import SEARCH_FILTER, VIEW_TAG
from cse_platform.stores.mlflow.sweep_run import find_mirrored_sweep, find_sweep_run
from cse_platform.stores.mlflow.tags import clean_name, text
from cse_platform.tracking.events import TrialReused


def test_a_sweep_is_a_parent_and_its_trials_are_children(undisturbed) -> None:
    seen = undisturbed
    assert {name: run["times"][2] for name, run in seen.items()} == {
        "s1": "FINISHED",
        "rankcse 3f2a91bc seed 42 (#0)": "FINISHED",
        "rankcse 3f2a91bc seed 42 (#1)": "KILLED",
        "rankcse 3f2a91bc seed 42 (#2)": "FAILED",
    }
    assert seen["rankcse 3f2a91bc seed 42 (#2)"]["tags"]["error"] == "the loss is NaN"
    trial = seen["rankcse 3f2a91bc seed 42 (#0)"]
    start = int(BEGIN.timestamp() * 1000)
    assert trial["times"] == (start + 1000, start + 4000, "FINISHED")
    assert trial["params"] == {
        "learning_rate": "3e-05", "rank_loss": "listnet", "teacher_weights": "[0.5,0.5]",
        "seed": "42",
    }  # fmt: skip
    assert trial["curves"] == {
        "dev/stsb_spearman": [(0, start + 2000, 0.5), (10, start + 3000, 0.75)],
        "train/loss": [(10, start + 3000, 1.5)],
        "best/stsb_spearman": [(10, start + 4000, 0.75)],
        "best/step": [(10, start + 4000, 10.0)],
        "perf/wall_seconds": [(10, start + 4000, 12.5)],
    }
    expected = {
        "mlflow.parentRunId": "s1", "sweep": "s1", "method": "rankcse", "backbone": "mini",
        "corpus": "wiki1m", "seed": "42", "configuration": HASH, "trial": "t0", "role": "search",
        "state": "COMPLETE", "git_commit": "c0ffee", "git_dirty": "true", "dev_identity": "d1",
        "dev_source": "builtin", "env.cpu": "a CPU",
    }  # fmt: skip
    assert expected.items() <= trial["tags"].items()


def test_the_sweep_s_run_holds_its_file_without_passwords(uri) -> None:
    spec = {"stores": {"search": "postgresql://user:secret@lab/s"}, "trials": [1, "a:b@c"]}
    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started(spec=spec)]))
    tags = runs_in(uri)["s1"].data.tags
    expected = {"stores": {"search": "postgresql://user:***@lab/s"}, "trials": [1, "a:***@c"]}
    assert json.loads(tags["spec"]) == expected
    assert tags["mlflow.source.git.commit"] == tags["git_commit"] == "c0ffee"
    assert tags["env.host"] == "lab"


@pytest.mark.parametrize(
    "cut", [pytest.param(cut, marks=[pytest.mark.slow] * (cut != 9)) for cut in range(0, 19, 3)]
)
def test_after_a_crash_anywhere_a_replay_adds_and_doubles_nothing(cut, uri, undisturbed) -> None:
    # The position was lost, so that another process begins again at 0 ...
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY[:cut]))
    if cut:
        forget_position(uri)
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY))
    # ... or was not moved after the last batch, so that another process applies that again.
    MLflowMirror(uri).apply(JOURNAL, numbered(HISTORY)[cut:])
    assert contents(uri) == undisturbed


def test_a_sweep_of_another_journal_is_not_mixed_with_this_one(uri) -> None:
    MLflowMirror(uri).apply("another", numbered(HISTORY[:3]))
    before, mirror = contents(uri), MLflowMirror(uri)
    ways_out = rf"{uri} has a sweep 's1' of another .* move it away.* --set experiment=NAME"
    with pytest.raises(StoreError, match=ways_out):
        mirror.apply(JOURNAL, numbered(HISTORY[:6]))
    assert contents(uri) == before
    assert mirror.position(JOURNAL) == 0
    ours = {"experiment": "cse", "sweep": "s1", "journal": JOURNAL}
    with pytest.raises(NotFoundError, match="has no run of the sweep 's1'"):
        find_sweep_run(uri, **ours)  # the page links to no other sweep
    assert find_sweep_run(uri, **(ours | {"journal": "another"})).startswith(
        "#/experiments/1/runs/"
    )
    mirrored = find_mirrored_sweep(uri, **ours)
    assert mirrored is not None and mirrored.runs == ()  # and nothing of it is deleted
    theirs = find_mirrored_sweep(uri, **(ours | {"journal": "another"}))
    assert theirs is not None and len(theirs.runs) == 2


def test_a_new_start_leaves_no_old_points_and_an_interruption_nothing_running(uri) -> None:
    MLflowMirror(uri).apply(
        JOURNAL,
        numbered([sweep_started(), trial_started(1), point(2, 0, 0.5), point(3, 10, 0.6)])
        + numbered([trial_started(4), point(5, 0, 0.5)]),
    )
    trial = contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]
    assert [step for step, _, _ in trial["curves"]["dev/stsb_spearman"]] == [0]
    assert trial["times"][2] == "RUNNING"
    MLflowMirror(uri).apply("later", numbered([sweep_finished(6, "INTERRUPTED")]))
    assert {run.info.status for run in runs_in(uri).values()} == {"KILLED"}


def test_a_sweep_that_ends_without_a_complete_trial_has_failed(uri) -> None:
    failed = [sweep_started(), trial_started(1), finished(2, state="FAIL"), sweep_finished(3)]
    again = [sweep_started(4), trial_started(5), finished(6), sweep_finished(7)]
    for events, status in ((failed, "FAILED"), ([*failed, *again], "FINISHED")):
        MLflowMirror(uri).apply(JOURNAL, numbered(events))
        assert contents(uri)["s1"]["times"][2] == status


def test_a_trial_that_resumes_keeps_its_points(uri) -> None:
    events = [
        *(sweep_started(), trial_started(1), point(2, 0, 0.5), point(3, 10, 0.75)),
        finished(4, state="FAIL", error="worker died"),
        *(trial_started(5, resumed_from=10), point(6, 20, 0.7)),
    ]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    trial = contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]
    assert [step for step, _, _ in trial["curves"]["dev/stsb_spearman"]] == [0, 10, 20]
    assert trial["times"][2] == trial["tags"]["state"] == "RUNNING"
    assert trial["tags"]["error"] == ""


def test_a_completed_trial_that_is_started_again_stays_as_it_is(uri) -> None:
    mirror = MLflowMirror(uri)
    mirror.apply(JOURNAL, numbered(HISTORY[:6]))
    before = contents(uri)
    mirror.apply(JOURNAL, numbered([trial_started(20), point(21, 0, 0.1)]))
    assert contents(uri) == before


REUSED = TrialReused(
    time=after(30), sweep="s2", reused_from="s1", trial="t0", number=5, role="search",
    search_number=5, seed=42, configuration=HASH, values=CONFIGURATION,
    searched=("learning_rate",), curve={0: 0.5, 10: 0.75}, best_step=10, best_value=0.75,
    model="/models/t0", method="rankcse", revision=1, backbone="mini", dev=DEV,
    started=after(1), finished=after(4),
)  # fmt: skip


def test_metrics_of_a_reused_trial_have_the_names_of_trained_ones() -> None:
    """The dev score is the first, by which MLflow compares runs."""
    metrics = {"perf/cpu_percent": 50.0, "train/loss": 1.0, "dev/größe (1)_spearman": 0.5}
    trained, *_ = trial_metrics(point(0, 0, 0.5).model_copy(update={"metrics": metrics}))
    curve_and_best = reused_metrics(REUSED, dev_search="größe (1)")
    assert [metric.key for metric in curve_and_best] == [
        *2 * [trained.key], best_metric("größe (1)"), "best/step",
    ]  # fmt: skip


def test_a_reused_trial_is_a_child_of_the_other_sweep(uri) -> None:
    events = [*HISTORY[:6], sweep_started(29, sweep="s2"), REUSED]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    MLflowMirror(uri).apply(JOURNAL, numbered(events))

    child, original = (contents(uri)[f"rankcse 3f2a91bc seed 42 (#{n})"] for n in (5, 0))
    assert child["tags"]["mlflow.parentRunId"] == "s2"
    assert child["tags"]["reused"] == "true"
    assert child["tags"]["reused_from"] == "s1"
    assert child["times"][2] == "FINISHED"
    assert child["params"] == original["params"]
    for metric in ("dev/stsb_spearman", "best/stsb_spearman", "best/step"):
        values = [(step, value) for step, _, value in child["curves"][metric]]
        assert values == [(step, value) for step, _, value in original["curves"][metric]]
    client = client_of(uri)
    experiment = client.get_experiment_by_name("cse").experiment_id
    shown = client.search_runs([experiment], SEARCH_FILTER)
    assert {run.data.tags["sweep"] for run in shown} == {"s1"}


@pytest.mark.parametrize(
    "name", ["rankcse 3f2a91bc seed 42 (#0)", pytest.param("s1", marks=pytest.mark.slow)]
)
def test_a_run_that_a_user_deleted_stays_deleted(name, uri) -> None:
    mirror, entries = MLflowMirror(uri), numbered([*HISTORY[:6], *HISTORY[-1:]])
    mirror.apply(JOURNAL, entries[:3])
    client_of(uri).delete_run(runs_in(uri)[name].info.run_id)

    with pytest.raises(StoreError, match="must be in the 'active' state"):
        mirror.apply(JOURNAL, entries[3:])  # it learns of it here
    mirror.apply(JOURNAL, entries[3:])
    mirror.apply(JOURNAL, entries)
    assert name not in runs_in(uri)
    assert mirror.position(JOURNAL) == 100 * len(entries)


def test_a_view_of_all_trials_is_offered_once(uri) -> None:
    tag, client = VIEW_TAG, client_of(uri)

    def tags() -> dict[str, str]:
        return dict(client.get_experiment_by_name("cse").tags)

    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started()]))
    assert json.loads(tags()[tag])["name"] == "Configurations, all seeds averaged"
    client.delete_experiment_tag(client.get_experiment_by_name("cse").experiment_id, tag)
    MLflowMirror(uri).apply(JOURNAL, numbered([sweep_started(9, "s2")]))
    assert tag not in tags()


def test_values_that_mlflow_would_refuse_are_fitted(uri) -> None:
    odd = {"train/loss@5": nan, "../up": inf, "a//b": -inf, "x" * 300: 1.0}
    values = {"prompt": "p" * 7000, "empty": "", "weights": {"b": 1, "a": [True, None]}}
    values |= {f"setting_{number}": number for number in range(150)}
    events = [
        sweep_started(spec={"note": "n" * 9000}),
        trial_started(1, values=values),
        point(2, 0, nan, **odd),
        finished(3, state="FAIL", error="e" * 9000, best_metrics={"dev/stsb_spearman": nan}),
    ]
    MLflowMirror(uri).apply(JOURNAL, numbered(events))
    MLflowMirror(uri).apply(JOURNAL, numbered(events))

    data = runs_in(uri)["rankcse 3f2a91bc seed 42 (#0)"].data
    assert data.params["prompt"] == "p" * 5999 + "…"
    assert data.params["weights"] == '{"a":[true,null],"b":1}'
    assert len(data.params) == 154
    assert len(data.tags["error"]) == 8000
    assert isnan(data.metrics["train/loss_5"])
    assert {"up", "a/b", "x" * 250} <= set(data.metrics)
    assert len(contents(uri)["rankcse 3f2a91bc seed 42 (#0)"]["curves"]["dev/stsb_spearman"]) == 1


def test_names_and_texts_are_shortened_to_what_mlflow_takes() -> None:
    names = {"dev/stsb_spearman": "dev/stsb_spearman", "": "_", "..": "_", "//ä b": "_ b"}
    assert {name: clean_name(name) for name in names} == names
    assert text("abc", limit=3) == "abc"
    assert text("abcd", limit=3) == "ab…"
    assert text("a\0b", limit=6) == "a\\x00b"
