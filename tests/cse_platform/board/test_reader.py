import statistics

import numpy as np
import pytest
from scored_boards import gold_of, scored
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_methods.evaluation.identity import settings_of_groups
from cse_methods.tasks import SENTENCE_GROUPS, STS_TASKS
from cse_platform.errors import QueryError
from cse_platform.leaderboard import Filters, Leaderboard, ranking
from cse_platform.stores.sql import tables
from cse_platform.tracking.events import TrialScore


def test_intervals_are_over_seeds_and_of_a_single_one_over_pairs(reader) -> None:
    from scipy import stats

    [row] = reader.rows(Filters(method="hicl"))
    assert list(row.scores) == [*STS_TASKS, "avg_sts"]
    for score in (*row.scores.values(), row.dev_score):
        values = list(score.values.values())
        assert (score.n, score.best) == (3, max(values))
        assert score.mean == pytest.approx(statistics.fmean(values))
        assert score.std == pytest.approx(statistics.stdev(values))
        low, high = stats.t.interval(0.95, 2, loc=score.mean, scale=stats.sem(values))
        assert score.interval is not None
        assert (score.interval.low, score.interval.high) == pytest.approx((low, high))
        assert score.interval.over == "seeds"
    [row] = reader.rows(Filters(method="sncse"))
    assert row.dev_score.interval is None
    for score in row.scores.values():
        assert score.std is None
        assert score.interval is not None
        assert score.interval.over == "pairs"
        assert score.interval.low < score.mean < score.interval.high
    assert row.headline == "avg_sts"
    widths = [s.interval.high - s.interval.low for s in row.scores.values() if s.interval]
    assert widths[-1] < min(widths[:-1])  # the average is surer than each task
    for column in ("dev_std", "std"):
        methods = [row.method for row in reader.rows(sort=column)]
        assert methods[-1] == "sncse"  # its one seed has no deviation
        assert sorted(methods) == ["hicl", "simcse", "sncse"]


@pytest.mark.parametrize("method", ["sncse", "simcse"])
def test_groups_that_an_evaluation_told_are_resampled_together(
    board, reader, monkeypatch, method
) -> None:
    # So that one of the two is asked about second.
    monkeypatch.setattr(tables, "BATCH", 1)

    def told() -> tuple[float, list[str]]:
        found = reader.compare("sncse", "simcse")
        [task] = [task for task in found.tasks if task.task == "stsb"]
        return task.interval.high - task.interval.low, list(found.notes)

    groups = np.arange(len(gold_of("stsb"))) // 8
    with monkeypatch.context() as patch:
        patch.setattr(ranking, "known_groups", lambda gold: groups)
        expected, _ = told()
    alone, notes = told()
    assert alone != expected and any("stsb" in note for note in notes)
    settings = settings_of_groups("stsb", "real-stsb", groups)
    counted = TrialScore(
        task="stsb", split="test", metric=SENTENCE_GROUPS, value=0.125, identity="groups"
    )
    [row] = reader.rows(Filters(method=method))
    event = scored(row.keys[row.seeds[0]], noise=1.0, cosines=False).model_copy(
        update={"sweep": row.sweep, "scores": (counted,), "identities": {"groups": settings}}
    )
    apply_events(board, [event])
    together, notes = told()
    assert together == expected
    assert [note for note in notes if "share a sentence" in note and "stsb" in note] == []


def test_a_comparison_says_of_which_pairs_the_sentences_are_not_known(reader, monkeypatch) -> None:
    def notes() -> list[str]:
        found = reader.compare("hicl", "simcse").notes, reader.compare_all().notes
        return [note for all_notes in found for note in all_notes if "share a sentence" in note]

    assert len(notes()) == 2
    assert all("stsb" in note for note in notes())
    monkeypatch.setattr(ranking, "known_groups", lambda gold: np.arange(len(gold)))
    assert not notes()


def test_ranks_are_among_rows_of_one_identity(board, reader) -> None:
    ranks = {row.method: row.rank for row in reader.rows()}
    assert {row: rank.among for row, rank in ranks.items() if rank} == dict.fromkeys(ranks, 3)
    assert (ranks["simcse"].best, ranks["simcse"].worst) == (3, 3)
    assert (ranks["hicl"].best, ranks["hicl"].worst) == (1, 2)
    for seed in range(3):
        again = scored(f"0a{seed:02x}" + "0" * 60, noise=1.0, reading="avg")
        apply_events(board, [again.model_copy(update={"sweep": "hicl"})])
    rows = reader.rows(Filters(method="hicl"))
    assert [row.scores["avg_sts"].identity for row in rows] == ["cls-real-mean", "avg-real-mean"]
    assert [row.rank.among for row in reader.rows() if row.rank] == [3, 1, 3, 3]


def test_without_test_scores_rows_are_ranked_on_dev(board) -> None:
    lives = [
        event
        for number, (name, value) in enumerate([("a", 0.9), ("a", 0.91), ("b", 0.5), ("b", 0.51)])
        for event in trial_life(number, {9: value}, configuration=name, method=name, seed=number)
    ]
    apply_events(board, [sweep_started(), *lives, *trial_life(9, {9: 0.99}, method="c")])
    rows = Leaderboard(board).rows()
    assert [(row.method, row.headline) for row in rows] == [("c", None), ("a", None), ("b", None)]
    assert rows[0].rank is None  # of one seed nothing is known
    assert [row.rank.among for row in rows if row.rank] == [2, 2]


def test_a_trial_is_one_seed_and_seeds_without_a_score_are_told(reader, board) -> None:
    found = reader.compare("0a0100", "simcse@bbbb")
    assert (found.a, found.b, found.n_a, found.n_b) == ("0a0100", "simcse@bbbb", 1, 2)
    [hicl] = reader.rows(Filters(method="hicl"))
    assert found.tasks[0].mean_a == hicl.scores["sts12"].values[1]
    itself = reader.compare("hicl", "hicl")
    assert (itself.a, itself.b) == ("hicl (A)", "hicl (B)")
    assert itself.average is not None and (itself.average.effect, itself.average.p) == (0, 1)
    assert itself.notes[0].startswith("seeds paired: ")
    more = trial_life(
        7, {0: 0.5, 9: 0.6}, sweep="sncse", method="sncse", configuration="c" * 64, seed=7,
        trial="0c07" + "0" * 60,
    )  # fmt: skip
    apply_events(board, more)
    found = reader.compare("hicl", "sncse")
    assert found.n_b == 1
    assert found.told[0].endswith(", seeds 0 1 2")
    assert found.told[1].endswith(", seed 0; not scored: seed 7")
    assert reader.compare_all().told[2].endswith(", seed 0; not scored: seed 7")


def test_another_reading_is_told_and_what_cannot_be_compared(board, reader) -> None:
    own = scored("0c00" + "0" * 60, noise=1.0, reading="avg")
    apply_events(board, [own.model_copy(update={"sweep": "sncse"})])
    with pytest.raises(QueryError, match=r"'sncse' matches several rows: sncse@c+ on mini, .*"):
        reader.compare("hicl", "sncse")
    by_identity = Filters(identity="avg-real-mean")
    [row] = reader.rows(by_identity)
    assert row.method == "sncse"
    notes = reader.against([row], "hicl")[0].notes
    assert any(note.endswith("pooler avg against cls") for note in notes)
    for name, match in {
        "bert": "is not a method of this leaderboard; name one of hicl, simcse, sncse,",
        "hicl@dd": "'hicl@dd' is not a complete configuration that matches",
        "0d0d0d": "no trial's key begins with '0d0d0d'",
    }.items():
        with pytest.raises(QueryError, match=match):
            reader.compare(name, "hicl")


def test_a_frame_has_a_line_a_row(reader) -> None:
    frame = reader.frame(sort="method")
    assert list(frame["method"]) == ["hicl", "simcse", "sncse"]
    assert list(frame["n"]) == [3, 2, 1]
    types = {name: str(frame[name].dtype) for name in frame}
    for names, dtype in {
        ("published", "gap_inside"): "boolean",
        ("n", "rank_best", "avg_sts_n"): "Int64",
        ("dev_mean", "dev_std", "avg_sts_low"): "float64",
        ("test_opened", "finished"): "datetime64[us, UTC]",
    }.items():
        assert {types[name] for name in names} == {dtype}, names
    assert not {"system", "sources", "settings"} & types.keys()
    assert frame["seeds"][1] == [0, 1]
    assert frame["avg_sts"].notna().any()
    assert list(frame["dev_mean"]) == [row.dev_score.mean for row in reader.rows(sort="method")]
    frame = reader.frame(Filters(method="none"))
    assert (len(frame), str(frame["finished"].dtype)) == (0, "datetime64[us, UTC]")


def test_a_headline_is_of_the_tasks_that_are_asked_for(reader) -> None:
    assert {row.headline for row in reader.rows(tasks="transfer")} == {None}
    with pytest.raises(QueryError, match="no tasks 'foo'; expected sts, transfer, ranking, long"):
        reader.rows(tasks="foo")  # type: ignore[arg-type]


def test_a_row_names_its_trials_and_the_first_digits_of_a_key_name_one(reader) -> None:
    [row] = reader.rows(Filters(method="simcse"))
    assert row.keys == {seed: f"0b{seed:02x}" + "0" * 60 for seed in (0, 1)}
    assert [(p.step, p.value) for p in reader.trial("0a0000").curve] == [(0, 0.5), (9, 0.7)]
    story = reader.trial("0A0000")
    assert (story.key[:6], story.method, story.seed) == ("0a0000", "hicl", 0)
    with pytest.raises(QueryError, match=r"'bbbbbb' is a configuration; its trials are 0b000000 "):
        reader.trial("bbbbbb")
