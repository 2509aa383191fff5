import statistics
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from board_rows import estimate, row
from scored_boards import gold_of, scored
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life, trial_reused

from cse_methods.evaluation.identity import settings_of_groups
from cse_methods.tasks import SENTENCE_GROUPS, STS_TASKS
from cse_platform.errors import QueryError
from cse_platform.leaderboard import Filters, Leaderboard, ranking
from cse_platform.leaderboard.frames import frame_rows
from cse_platform.leaderboard.records import DevSets
from cse_platform.leaderboard.statistics.compare import holm
from cse_platform.leaderboard.statistics.intervals import RankInterval
from cse_platform.presentation.comparison import describe_limits, describe_row, verdict
from cse_platform.stores.sql import tables
from cse_platform.tracking.events import SweepFinished, TrialScore


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
        assert score.interval.over == "examples"
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

    def told() -> tuple[float, tuple[str, ...]]:
        found = reader.compare("sncse", "simcse")
        [task] = [task for task in found.tasks if task.task == "stsb"]
        return task.interval.high - task.interval.low, found.limits.ungrouped

    groups = np.arange(len(gold_of("stsb"))) // 8
    with monkeypatch.context() as patch:
        patch.setattr(ranking, "known_groups", lambda gold: groups)
        expected, _ = told()
    alone, ungrouped = told()
    assert alone != expected and "stsb" in ungrouped
    settings = settings_of_groups("stsb", "real-stsb", groups)
    counted = TrialScore(
        task="stsb", split="test", metric=SENTENCE_GROUPS, value=0.125, identity="groups"
    )
    [row] = reader.rows(Filters(method=method))
    event = scored(row.keys[row.seeds[0]], noise=1.0, cosines=False).model_copy(
        update={"sweep": row.sweep, "scores": (counted,), "identities": {"groups": settings}}
    )
    apply_events(board, [event])
    together, ungrouped = told()
    assert together == expected
    assert "stsb" not in ungrouped


def test_a_comparison_says_of_which_pairs_the_sentences_are_not_known(reader, monkeypatch) -> None:
    def ungrouped() -> list[tuple[str, ...]]:
        compared = reader.compare("hicl", "simcse"), reader.compare_all()
        return [each.limits.ungrouped for each in compared]

    assert all("stsb" in tasks for tasks in ungrouped())
    monkeypatch.setattr(ranking, "known_groups", lambda gold: np.arange(len(gold)))
    assert ungrouped() == [(), ()]


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
    assert (found.a, found.b) == ("0a0100", "simcse@bbbb")
    assert [(task.n_a, task.n_b) for task in found.tasks] == [(1, 2)] * 7
    [hicl] = reader.rows(Filters(method="hicl"))
    assert found.tasks[0].mean_a == hicl.scores["sts12"].values[1]
    itself = reader.compare("hicl", "hicl")
    assert (itself.a, itself.b) == ("hicl (A)", "hicl (B)")
    assert itself.average is not None and (itself.average.effect, itself.average.p) == (0, 1)
    assert itself.limits.pairs_seeds
    one = "are one configuration, so they have no true difference; {} of their trials are the same."
    assert f"hicl (A) and hicl (B) {one.format(3)}" in describe_limits(itself)
    other_seed = reader.compare("0a0100", "hicl")
    assert f"0a0100 and hicl {one.format(1)}" in describe_limits(other_seed)
    assert not found.limits.one_configuration and not reader.compare_all().limits.one_configuration
    more = trial_life(
        7, {0: 0.5, 9: 0.6}, sweep="sncse", method="sncse", configuration="c" * 64, seed=7,
        trial="0c07" + "0" * 60,
    )  # fmt: skip
    apply_events(board, more)
    found = reader.compare("hicl", "sncse")
    assert found.average is not None and found.average.n_b == 1
    assert [row.seeds for row in found.rows] == [(0, 1, 2), (0,)]
    assert found.rows[1].unscored_seeds == {7: ()}
    assert describe_row(found.rows[1]).endswith(", seed 0; not scored: seed 7")
    assert reader.compare_all().rows[2].unscored_seeds == {7: ()}


def test_a_task_is_compared_over_its_own_seeds_as_the_board_counts_them(board, reader) -> None:
    evaluated = {"0a00": ["mine"], "0a01": ["late"], "0b00": ["mine"], "0b01": ["mine", "late"]}
    for key, tasks in evaluated.items():
        of_method = {"sweep": "hicl" if key < "0b" else "simcse"}
        for task in tasks:
            event = scored(key + "0" * 60, noise=1.0, seed=int(key[-1]), tasks=(task,))
            apply_events(board, [event.model_copy(update=of_method)])
    found = reader.compare("hicl", "simcse", tasks="own")
    ours, theirs = (reader.rows(Filters(method=m), tasks="own")[0] for m in ("hicl", "simcse"))
    assert sorted(task.task for task in found.tasks) == ["late", "mine"]
    for task in found.tasks:
        assert (task.mean_a, task.mean_b) == pytest.approx(
            (ours.scores[task.task].mean, theirs.scores[task.task].mean)
        )
        assert (task.n_a, task.n_b) == {"mine": (1, 2), "late": (1, 1)}[task.task]
    assert [task.p_holm for task in found.tasks] == holm([task.p for task in found.tasks])
    assert describe_row(found.rows[1]).endswith(", seeds 0 1; not scored on late: seed 0")
    late, mine = sorted(verdict(found), key=lambda said: "on mine" in said)
    assert mine.startswith("With one seed of hicl, ")
    assert late.startswith("With one seed of hicl and one of simcse, ")
    with pytest.raises(QueryError, match="no seed of hicl is scored on all of "):
        reader.compare_all(tasks="own")


def test_an_average_is_compared_over_the_seeds_that_have_all_of_it(board, reader) -> None:
    hicl, simcse = (reader.rows(Filters(method=method))[0] for method in ("hicl", "simcse"))
    whole = reader.compare("hicl", "simcse")
    for number in (7, 8):
        key = f"0a0{number}" + "0" * 60
        life = trial_life(
            number, {0: 0.5, 9: 0.7}, sweep="hicl", method="hicl", configuration="a" * 64,
            seed=number, trial=key,
        )  # fmt: skip
        score = scored(key, noise=2.0, seed=number, tasks=("sts12",))
        apply_events(board, [*life, score.model_copy(update={"sweep": "hicl"})])
    found = reader.compare("hicl", "simcse")
    sts12, *others = found.tasks
    assert (sts12.n_a, sts12.n_b) == (5, 2) and sts12.mean_a < whole.tasks[0].mean_a
    assert [task.effect for task in others] == [task.effect for task in whole.tasks[1:]]
    assert found.average == whole.average
    assert found.average is not None
    effect = hicl.scores["avg_sts"].mean - simcse.scores["avg_sts"].mean
    assert found.average.effect == pytest.approx(effect)
    told = describe_row(found.rows[0])
    assert told.endswith(
        "seeds 0 1 2 7 8; not scored on " + ", ".join(STS_TASKS[1:]) + ": seeds 7 8"
    )


def test_another_reading_is_told_and_what_cannot_be_compared(board, reader) -> None:
    own = scored("0c00" + "0" * 60, noise=1.0, reading="avg")
    apply_events(board, [own.model_copy(update={"sweep": "sncse"})])
    several = r"'sncse' matches several rows with scores of sts: sncse@c+ on mini"
    with pytest.raises(QueryError, match=several):
        reader.compare("hicl", "sncse")
    by_identity = Filters(identity="avg-real-mean")
    [row] = reader.rows(by_identity)
    assert row.method == "sncse"
    comparison = reader.against([row], "hicl")[0]
    [reading] = comparison.limits.readings
    assert (reading.b, reading.values) == ("hicl", {"pooler": ("avg", "cls")})
    assert any("pooler avg against cls." in text for text in describe_limits(comparison))
    for name, match in {
        "bert": "is no method or sweep of this leaderboard; name one of hicl, simcse, sncse,",
        "simsce": r"first 6 digits; did you mean 'simcse'\?$",
        "hicl@dd": "'hicl@dd' is not a complete configuration that matches",
        "0d0d0d": "no trial's key begins with '0d0d0d'",
    }.items():
        with pytest.raises(QueryError, match=match):
            reader.compare(name, "hicl")


def test_a_name_never_means_a_scored_row_instead_of_the_best_on_dev(board, reader) -> None:
    """The best of hicl on dev has no test scores; its other configuration has, and so has a row
    of another dev set, which the name does not mean for that.
    """
    other_dev = dict.fromkeys(("checkpoint", "search"), "sickr") | {"identity": "dev-2"}
    other_dev |= {"source": "file", "corpus": "builtin"}
    of = {"sweep": "hicl", "method": "hicl"}
    lives = [
        event
        for number, (key, value, more) in enumerate(
            [("d", 0.9, {}), ("d", 0.91, {}), ("d", 0.92, {}), ("e", 0.5, {"dev": other_dev})], 20
        )
        for event in trial_life(
            number, {9: value}, configuration=key * 64, trial=f"0{key}{number}" + "0" * 60,
            seed=number, **of, **more,
        )
    ]  # fmt: skip
    elsewhere = scored("0e23" + "0" * 60, noise=1.0).model_copy(update={"sweep": "hicl"})
    apply_events(board, [*lives, elsewhere])
    best, scored_ones = "hicl@dddddddd", "hicl@aaaaaaaa on mini, stsb .builtin., evaluation"
    with pytest.raises(QueryError, match=f"'hicl' matches several rows; the best on dev, {best}, "
                       f"has none of sts; scored: hicl@eeee.*; {scored_ones}"):  # fmt: skip
        reader.compare("hicl", "simcse")
    with pytest.raises(QueryError, match=f"{best}, has none of sts; scored: {scored_ones}"):
        reader.compare("hicl", "simcse", Filters(identity="dev-1"))
    assert reader.compare("hicl@a", "simcse").a == "hicl@a"
    assert reader.row("hicl", Filters(identity="dev-1"))[1].reference == best
    with pytest.raises(QueryError, match=f"'{best}' has no test scores of sts; add them"):
        reader.compare(best, "simcse")


def test_a_row_whose_sweep_still_runs_waits_for_its_test_scores(board, reader) -> None:
    for sweep, spec in {"late": {"evaluate": {"top": 1, "tasks": ["sts"]}}, "bare": {}}.items():
        begun = sweep_started(sweep, method="rankcse", spec=spec)
        lives = trial_life(0, {9: 0.5}, sweep=sweep, method="rankcse", configuration=sweep)
        apply_events(board, [begun, *lives], journal=sweep)
    with pytest.raises(QueryError, match="'late' has no test scores of sts; wait for sweep 'late'"):
        reader.compare("late", "hicl")
    more = trial_life(
        1, {9: 0.4}, sweep="late", method="rankcse", configuration="older", trial="0f" * 32
    )
    older = scored("0f" * 32, noise=1.0).model_copy(update={"sweep": "late"})
    apply_events(board, [*more, older], journal="late")
    with pytest.raises(QueryError, match=r"several rows; .*CONFIGURATION, or wait for .*'late'"):
        reader.compare("late", "hicl")
    apply_events(board, [SweepFinished(sweep="late", state="COMPLETE")], journal="late")
    with pytest.raises(QueryError, match=r"'late' matches several .* METHOD@CONFIGURATION$"):
        reader.compare("late", "hicl")
    with pytest.raises(QueryError, match="'bare' has no test scores of sts; add them"):
        reader.compare("bare", "hicl")
    with pytest.raises(QueryError, match=r"did you mean 'late'\?$"):
        reader.compare("laet", "hicl")


def test_a_comparison_says_who_was_chosen_after_test_sets_were_opened(reader) -> None:
    [hicl] = reader.rows(Filters(method="hicl"))
    late = "hicl", replace(hicl, test_opened=hicl.finished)
    notes = list(describe_limits(reader.compare(late, "simcse")))
    assert any(note.startswith("hicl was chosen after such test sets had been") for note in notes)
    assert reader.compare("hicl", "simcse").limits.opened == ()


def test_a_frame_has_a_line_a_row(reader) -> None:
    frame = reader.frame(sort="method")
    assert list(frame["method"]) == ["hicl", "simcse", "sncse"]
    assert list(frame["n"]) == [3, 2, 1]
    rows = reader.rows(sort="method")
    papers = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
    assert [name for name in frame if name in papers] == papers
    assert list(frame["Avg."]) == [row.scores["avg_sts"].mean for row in rows]
    assert list(frame["dev"]) == [row.dev_score.mean for row in rows]
    low, high = rows[0].scores["avg_sts"].interval.low, rows[0].scores["avg_sts"].interval.high
    assert (frame["Avg. low"][0], frame["Avg. high"][0], frame["Avg. n"][0]) == (low, high, 3)
    assert frame["Avg. std"].isna().tolist() == [False, False, True]
    assert str(frame["finished"].dtype).startswith("datetime64") and frame["seeds"][1] == [0, 1]
    assert [frame[name][0] for name in rows[0].configuration.values] == [
        *rows[0].configuration.values.values()
    ]
    assert reader.frame(Filters(backbone="bert-base"))["method"].empty
    assert "Avg." not in reader.frame(tasks="own")


@pytest.mark.parametrize("rows", [[], [row({})], [row({"sts12": estimate(0.7)})]])
def test_a_frame_without_the_papers_average_has_its_columns(rows) -> None:
    """And all are numbers, also where no interval is known."""
    frame = frame_rows(rows)
    up, down = frame["Avg. high"] - frame["Avg."], frame["Avg."] - frame["Avg. low"]
    dev = frame["dev high"] - frame["dev"] if rows else up
    assert up.isna().all() and down.isna().all() and dev.isna().all()


def test_a_frame_says_what_each_rank_is_among() -> None:
    opened = datetime(2030, 1, 1, tzinfo=UTC)
    score, elsewhere = (
        {"avg_sts": estimate(0.7, identity=identity, source=source)}
        for identity, source in (("e1", "hub"), ("e2", ""))
    )
    imported = DevSets("stsb", "stsb", "d2", "imported")
    frame = frame_rows(
        [
            row(score, rank=RankInterval(1, 2, 2), test_opened=opened),
            row(elsewhere, rank=RankInterval(1, 1, 1), dev=imported),
            row({}),
        ]
    )
    named = ["evaluation", "source", "rank_best", "rank_worst", "rank_among", "test_opened"]
    told = frame[named].astype(object)
    assert told.where(told.notna(), None).to_numpy().tolist() == [
        ["e1", "hub", 1, 2, 2, opened],
        ["e2", "imported", 1, 1, 1, None],
        [None] * 6,
    ]


def test_frames_of_trials_and_curves_are_tidy(reader, board) -> None:
    reused = {"sweep": "again", "method": "simcse", "configuration": "b" * 64}
    values = {"tau": 0.05, "state": "x"}  # `state` is a column of each trial, too
    life = trial_life(3, {0: 0.1, 9: 0.4}, values=values, **reused)
    apply_events(board, [sweep_started("again", method="simcse"), *life])
    third = [sweep_started("third", method="simcse"), trial_reused(life, "third", number=0)]
    apply_events(board, third, journal="third")
    trials = reader.trials()
    assert len(trials) == trials["trial"].nunique() == 7
    whole = trials[trials["method"] == "hicl"]
    [hicl] = reader.rows(Filters(method="hicl"))
    assert list(whole["Avg."]) == list(hicl.scores["avg_sts"].values.values())
    assert list(whole["dev"]) == pytest.approx([0.7, 0.71, 0.72])
    [again] = reader.trials(Filters(sweep="again")).to_dict("records")
    assert (again["number"], again["state"], again["dev"]) == (3, "COMPLETE", 0.4)
    assert reader.trials(Filters(sweep="third"))["number"].tolist() == [0]
    assert "Avg." not in again
    curves = reader.curves(Filters(method="simcse"))
    assert list(curves["step"]) == [0, 9] * 3
    assert list(curves.groupby("trial")["dev"].max()) == pytest.approx([0.6, 0.61, 0.4])
    assert list(curves["kept"]) == [False, True] * 3
    assert list(curves["dev/stsb_spearman"]) == list(curves["dev"])
    assert reader.trials(Filters(identity="avg-")).empty
    assert len(reader.trials(Filters(identity="cls-real"))) == 6
    assert len(reader.trials(Filters(configuration="aaaa"))) == 3


@pytest.mark.parametrize("ask", ["rows", "frame", "trials", "curves"])
def test_filters_that_name_nothing_known_are_refused(reader, ask) -> None:
    for filters, match in {
        Filters(backbone="bert"): "there is no backbone 'bert' .*; did you mean",
        Filters(
            method="simce"
        ): r"there is no method 'simce' \(on this leaderboard: hicl, simcse, ",
        Filters(method="hicl,simcse"): "name one method, as only backbones can be several$",
        Filters(sweep="hcl"): r"there is no sweep 'hcl' \(on this .*\); did you mean 'hicl'",
        Filters(
            tag="of-snce"
        ): r"there is no tag 'of-snce' \(on this .*\); did you mean 'of-sncse'",
        Filters(hardware="H100"): r"there is no hardware 'H100' \(on this leaderboard: .*node-1",
    }.items():
        with pytest.raises(QueryError, match=match):
            getattr(reader, ask)(filters)
        with pytest.raises(QueryError, match=match):
            reader.compare("hicl", "simcse", filters)
    assert len(getattr(reader, ask)(Filters(backbone="bert-base"))) == 0


def test_a_filter_is_one_text_and_since_a_time() -> None:
    with pytest.raises(TypeError, match=r"Filters\(method=…\): expected one text, got \['simcse',"):
        Filters(method=["simcse", "hicl"])  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"one text, such as 'mini,bert-base' for two, got \('mini',"
    ):
        Filters(backbone=("mini", "bert-base"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Filters\(since=…\): expected a datetime, got '2030'"):
        Filters(since="2030")  # type: ignore[arg-type]


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
