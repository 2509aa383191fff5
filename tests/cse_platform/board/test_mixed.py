from collections.abc import Callable

import pytest
from scored_boards import scored
from stored_trials import apply_events
from sweep_events import sweep_started, trial_evaluated, trial_life

from cse_methods.tasks import STS_TASKS
from cse_platform.errors import ComparisonError
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.comparisons import compare_rows
from cse_platform.leaderboard.trials_table import TrialChoice
from cse_platform.presentation.comparison import describe_limits, describe_row
from cse_platform.tracking.events import TrialEvaluated
from cse_platform.tracking.recorded_runs import make_evaluation

HICL = [f"0a{seed:02x}" + "0" * 60 for seed in range(3)]


@pytest.fixture
def another(board, reader) -> Callable[..., None]:
    """Adds a method with one seed, scored on some tasks, to the leaderboard."""

    def add(method: str, number: int, *, dev: float = 0.3, **how: object) -> None:
        key = f"{number:02x}" + "0" * 62
        of = {"sweep": method, "method": method, "configuration": f"{number:02x}" * 32}
        life = trial_life(50 + number, {0: 0.1, 9: dev}, trial=key, **of)
        event = scored(key, noise=0.1, **how).model_copy(update={"sweep": method})
        apply_events(board, [sweep_started(method, method=method), *life, event])

    return add


def test_other_data_is_not_compared(board, reader) -> None:
    for trial in HICL:
        own = scored(trial, noise=1.0, data="other")
        apply_events(board, [own.model_copy(update={"sweep": "hicl"})])
    [row] = reader.rows(Filters(identity="cls-other"))
    [other] = reader.rows(Filters(method="simcse"))
    with pytest.raises(
        ComparisonError, match=r"data; hicl@.*, hicl@.* have different ones.*--identity"
    ):
        reader.compare_all(Filters(method="hicl"))
    assert reader.against([row], "simcse") == {}
    with (
        board.session() as session,
        pytest.raises(ComparisonError, match="hicl and simcse were scored on sts12 with"),
    ):
        compare_rows(session, {"hicl": row, "simcse": other}, family="sts")


def test_data_that_nobody_checked_are_those_of_one_recorded_sweep_or_of_imports(
    board, reader
) -> None:
    rows = [
        ("mine", "recorded", "tuned", (0.60, 0.62)),
        ("mine", "recorded", "plain", (0.50, 0.54)),
        ("hers", "recorded", "other", (0.70, 0.72)),
        ("lab", "imported", "taken", (0.65, 0.67)),
        ("sheet", "imported", "typed", (0.45, 0.46)),
    ]
    for number, (sweep, source, method, values) in enumerate(rows):
        named = {"method": method, "backbone": "bert-base"}
        of = {"sweep": sweep, "configuration": f"{number:02x}" * 32, **named}
        events = [sweep_started(sweep, **named)]
        for seed, value in enumerate(values):
            key, curve = f"1{number}{seed}" + "0" * 61, {9: 0.9 - number / 10}
            events += trial_life(60 + 2 * number + seed, curve, trial=key, seed=seed, **of)
            events.append(
                make_evaluation(
                    {"sts12": value},
                    source=source,
                    group=sweep if source == "recorded" else None,
                    sweep=sweep,
                    trial=key,
                )
            )
        apply_events(board, events)
    recorded, imported = reader.compare("tuned", "plain"), reader.compare("taken", "typed")
    assert recorded.tasks[0].effect == pytest.approx(0.61 - 0.52)
    assert imported.tasks[0].effect == pytest.approx(0.66 - 0.455)
    assert not any("differently" in said for said in describe_limits(recorded))
    for a, b in (("tuned", "other"), ("tuned", "taken"), ("typed", "hicl"), ("sncse", "other")):
        with pytest.raises(ComparisonError, match=f"{a} and {b} .* not known to be the same;"):
            reader.compare(a, b)
    shown = reader.rows()
    against = reader.against(shown, "tuned")
    assert [shown[index].method for index in against] == ["plain"]
    assert set(reader.compare_all().names) == {"hicl", "simcse", "sncse"}
    alone = reader.compare_all(Filters(backbone="bert-base"))
    assert (alone.names, alone.limits.left_out) == (("tuned", "plain"), ("other", "taken", "typed"))
    rows = reader.rows(Filters(backbone="bert-base"))
    ranked = {row.method: row.rank.among for row in rows if row.rank}
    assert ranked == {"tuned": 2, "plain": 2, "other": 1, "taken": 2, "typed": 2}


def test_of_as_many_rows_on_other_data_those_on_known_data_are_compared(board, reader) -> None:
    """Though the imported ones have the higher dev scores."""
    for number, source in enumerate(("imported", "imported", "builtin", "builtin")):
        of = {"sweep": f"s{number}", "method": f"m{number}", "backbone": "bert-large"}
        key = f"{number}" * 64
        scores = make_evaluation({"sts12": 0.5}, source=source, sweep=of["sweep"], trial=key)
        life = trial_life(1, {9: 0.9 - number / 10}, trial=key, configuration=key, **of)
        apply_events(board, [sweep_started(**of), *life, scores])
    found = reader.compare_all(Filters(backbone="bert-large"))
    assert (found.names, found.limits.left_out) == (("m2", "m3"), ("m0", "m1"))


def test_rows_without_an_average_rank_by_the_task_that_most_have(board, reader) -> None:
    for number, task in enumerate(("sts12", "stsb", "stsb")):
        named = {"method": f"m{number}", "backbone": "bert-base"}
        key = f"4{number}" + "0" * 62
        of = {"sweep": f"s{number}", "configuration": f"{number:02x}" * 32, "trial": key, **named}
        event = make_evaluation({task: 0.5}, source="imported", sweep=f"s{number}", trial=key)
        life = trial_life(90 + number, {9: 0.8}, **of)
        apply_events(board, [sweep_started(f"s{number}", **named), *life, event])
    assert {row.headline for row in reader.rows(Filters(backbone="bert-base"))} == {"stsb"}


def test_different_corpora_are_told(board, reader) -> None:
    dev = {"checkpoint": "stsb", "search": "stsb", "identity": "dev-1", "source": "builtin"}
    of = {"sweep": "wide", "method": "wide", "configuration": "d" * 64, "trial": "0d" * 32}
    life = trial_life(60, {9: 0.3}, **of, dev={**dev, "corpus": "wiki1m"})
    event = scored("0d" * 32, noise=2.0).model_copy(update={"sweep": "wide"})
    apply_events(board, [sweep_started("wide", method="wide"), *life, event])
    alike, other = reader.compare("hicl", "simcse"), reader.compare("hicl", "wide")
    assert not alike.limits.corpora
    assert other.limits.corpora == {"hicl": "builtin", "wide": "wiki1m"}
    assert any("builtin: hicl; wiki1m: wide" in said for said in describe_limits(other))
    every = reader.compare_all()
    assert any("builtin: hicl, simcse, sncse; wiki1m: wide" in s for s in describe_limits(every))


def count(event: TrialEvaluated, data: str, seen: float) -> TrialEvaluated:
    """Add how much of STS12 the corpus has, counted on some data."""
    identity, changes = f"count-{data}", event.model_dump()
    score = {"task": "sts12", "split": "test", "metric": "in_corpus", "value": seen}
    changes["scores"] = [*changes["scores"], {**score, "identity": identity}]
    settings = {"in": ["my.txt"], "sentences": 100, "data_sha256": f"{data}-sts12"}
    changes["identities"] = {**changes["identities"], identity: settings}
    return TrialEvaluated.model_validate(changes)


@pytest.mark.parametrize("last", ["builtin", "real"])
def test_what_was_seen_of_other_data_marks_no_row(board, reader, last) -> None:
    """Whichever of the two was scored last; a frame of trials keeps their scores apart, too."""
    seen = {"builtin": 0.0, "real": 0.02}
    for data in sorted(seen, key=last.__eq__):
        event = scored(HICL[0], noise=1.0, data=data)
        event = count(event, data, seen[data]).model_copy(update={"sweep": "hicl", "source": data})
        apply_events(board, [event])
    every = [row for row in reader.rows() if row.method == "hicl"]
    rows = {row.scores["sts12"].source: row for row in every}
    marks = {data: "saw test sentences" in rows[data].marks for data in seen}
    assert marks == {"builtin": False, "real": True}
    assert [entry.seen for entry in rows["real"].seen] == [2]
    trial, *_ = reader.trials(Filters(sweep="hicl")).to_dict("records")
    for data, name in {"builtin": "STS12 (builtin)", "real": "STS12"}.items():
        assert trial[name] == rows[data].scores["sts12"].values[0]
    names = {"test/builtin/sts12_spearman", "test/sts12_spearman"}
    assert names <= {*reader.measured("hicl")}
    [first, *_] = reader.table_trials("hicl", TrialChoice(measured=sorted(names)))
    assert first.measured == {
        "test/builtin/sts12_spearman": trial["STS12 (builtin)"],
        "test/sts12_spearman": trial["STS12"],
    }


def test_corpora_are_told_apart_by_content(board, reader) -> None:
    """`b` has other sentences than `a` in a file of one name; `c` has those of `a` in another."""
    dev = {"checkpoint": "stsb", "search": "stsb", "identity": "dev-1", "source": "builtin"}
    corpora = {"a": ("my.txt", "1" * 64), "b": ("my.txt", "2" * 64), "c": ("her.txt", "1" * 64)}
    for number, (name, (corpus, sha256)) in enumerate(corpora.items()):
        key = f"3{number}" * 32
        of = {"sweep": name, "method": name, "configuration": f"4{name}" * 32, "trial": key}
        trained = dev | {"corpus": corpus, "corpus_sha256": sha256}
        event = scored(key, noise=2.0).model_copy(update={"sweep": name})
        life = trial_life(70 + number, {9: 0.3}, **of, dev=trained)
        apply_events(board, [sweep_started(name, method=name), *life, event])
    assert reader.compare("a", "b").limits.corpora == {
        "a": "my.txt (11111111)", "b": "my.txt (22222222)"
    }  # fmt: skip
    assert reader.compare("a", "c").limits.corpora == {}
    [shown] = {row.shown_corpus for row in reader.rows(Filters(method="c"))}
    assert shown == "her.txt (11111111)"


def test_settings_that_differ_are_told(board, reader) -> None:
    """Not those that both searches varied, nor those that one of two methods lacks."""
    for number, (method, values) in enumerate(
        {
            "short": {"max_length": 16, "max_steps": 9, "pull_weight": 0.1, "learning_rate": 1e-5},
            "long": {"max_length": 24, "max_steps": 9, "learning_rate": 3e-5},
        }.items()
    ):
        named = {"method": method, "backbone": "bert-base"}
        key = f"3{number}" + "0" * 62
        life = trial_life(
            90 + number, {9: 0.8}, sweep=method, configuration=f"{number:02x}" * 32, trial=key,
            values=values, searched=("learning_rate", "max_length")[: 1 + number], **named,
        )  # fmt: skip
        event = scored(key, noise=1.0 + number).model_copy(update={"sweep": method})
        apply_events(board, [sweep_started(method, **named), *life, event])
    found = reader.compare("short", "long")
    assert found.limits.fixed == {"short": {"max_length": 16}, "long": {"max_length": 24}}
    told = "Settings differ, from which a difference may come: "
    assert f"{told}max_length=16: short; max_length=24: long." in [*describe_limits(found)]
    every = reader.compare_all(Filters(backbone="bert-base"))
    assert any(said == f"{told}max_length." for said in describe_limits(every))


def test_rows_that_have_averages_alone_are_compared_on_these(board, reader) -> None:
    """As those of an imported spreadsheet."""
    for number, (method, values) in enumerate({"ct": (0.76, 0.77), "pcl": (0.74, 0.73)}.items()):
        named = {"method": method, "backbone": "bert-base"}
        of = {"sweep": method, "configuration": f"{number:02x}" * 32, **named}
        events = [sweep_started(method, **named)]
        for seed, value in enumerate(values):
            key = f"2{number}{seed}" + "0" * 61
            events += trial_life(80 + 2 * number + seed, {9: 0.8}, trial=key, seed=seed, **of)
            scores = {"avg_sts": value}
            events.append(make_evaluation(scores, source="imported", sweep=method, trial=key))
        apply_events(board, events)
    found = reader.compare("ct", "pcl")
    assert [(task.task, task.effect) for task in found.tasks] == [("avg_sts", pytest.approx(0.03))]
    assert found.average is None and found.tasks[0].interval is not None
    every = reader.compare_all(Filters(backbone="bert-base"))
    assert (every.names, every.tasks) == (("ct", "pcl"), ("avg_sts",))


def test_what_lacks_tasks_is_named_beside_the_matrix_with_its_interval(reader, another) -> None:
    another("rankcse", 20, tasks=("stsb",))
    another("compcse", 21, data="other")
    found = reader.compare_all()
    assert found.names == ("hicl", "simcse", "sncse")
    assert found.tasks == STS_TASKS
    assert set(found.limits.left_out) == {"compcse", "rankcse"}
    described = describe_row(found.rows[0])
    assert described == "hicl@aaaaaaaa on mini, stsb (builtin), seeds 0 1 2"
    another("aligncse", 22, data="third", dev=0.99)  # the first row
    found = reader.compare_all()
    assert found.names == ("hicl", "simcse", "sncse")
    assert set(found.limits.left_out) == {"aligncse", "compcse", "rankcse"}
    with pytest.raises(ComparisonError, match="of sts; there is compcse; --all"):
        reader.compare_all(Filters(identity="cls-other"))
    [row] = [row for row in reader.rows() if row.method == "rankcse"]
    assert (row.headline, row.rank) == ("avg_sts", None)
    interval = row.scores["stsb"].interval
    assert interval is not None
    assert interval.over == "examples"
    assert interval.low < row.scores["stsb"].mean < interval.high


def test_without_shared_averages_the_most_rows_of_a_task_are_compared(reader, another) -> None:
    for number, tasks in enumerate([("sts12",), ("stsb", "sts13"), ("stsb",), ("stsb", "sts13")]):
        another(f"few{number}", 20 + number, reading="few", tasks=tasks)
    found = reader.compare_all(Filters(identity="few-"))
    assert (set(found.names), found.tasks) == ({"few1", "few2", "few3"}, ("stsb",))
    assert found.limits.left_out == ("few0",)


def test_ranking_is_compared_by_one_metric(board, reader) -> None:
    """Kendall's tau says simcse, NDCG says hicl; a mean over both would mean nothing."""
    told = [(HICL[0], 0.1, 0.9), (HICL[1], 0.12, 0.9), ("0b00", 0.2, 0.3), ("0b01", 0.22, 0.3)]
    for trial, kcc, ndcg in told:
        scores = {f"test/{task}_kcc": kcc for task in (*STS_TASKS, "avg_sts")}
        scores |= {f"test/{task}_ndcg": ndcg for task in (*STS_TASKS, "avg_sts")}
        event = trial_evaluated(trial.ljust(64, "0"), scores, identity="ranked")
        apply_events(board, [event])
    found = reader.compare_all(tasks="ranking")
    assert found.names == ("hicl", "simcse")
    assert found.tasks == tuple(f"{task}_kcc" for task in STS_TASKS)
    assert found.effects[0][1] == pytest.approx(-0.1)


def test_seeds_that_were_scored_task_by_task_get_their_average(board) -> None:
    keys = [f"{seed:02x}" + "0" * 62 for seed in range(3)]
    told = [sweep_started()]
    for seed, key in enumerate(keys):
        told += trial_life(seed, {9: 0.7}, configuration="a", seed=seed, trial=key)
    told.append(scored(keys[0], noise=1.0))
    for seed in (1, 2):
        told += [scored(keys[seed], noise=1.0, seed=seed, tasks=(task,)) for task in STS_TASKS]
    apply_events(board, told)
    [row] = Leaderboard(board).rows()
    average = row.scores["avg_sts"]
    assert average.n == 3
    for seed in range(3):
        own = [row.scores[task].values[seed] for task in STS_TASKS]
        assert average.values[seed] == pytest.approx(sum(own) / 7)
    assert average.interval is not None
    assert average.interval.over == "seeds"


def test_a_seed_that_lacks_tasks_gets_no_average_over_the_others(board) -> None:
    """Not even where the row shows no more tasks, as after an import of few."""
    keys = [f"{seed:02x}" + "0" * 62 for seed in range(2)]
    told = [sweep_started()]
    for seed, key in enumerate(keys):
        told += trial_life(seed, {9: 0.7}, configuration="a", seed=seed, trial=key)
    whole = scored(keys[0], noise=1.0, cosines=False)
    few = tuple(score for score in whole.scores if score.task in ("stsb", "avg_sts"))
    one = scored(keys[1], noise=1.0, seed=1, tasks=("stsb",), cosines=False)
    apply_events(board, [*told, whole.model_copy(update={"scores": few}), one])
    [row] = Leaderboard(board).rows()
    assert {task: set(score.values) for task, score in row.scores.items()} == {
        "stsb": {0, 1},
        "avg_sts": {0},
    }


def test_a_sweep_and_a_tag_count_their_own_trials_only(board, reader) -> None:
    """Another sweep gives hicl's configuration a further seed, and tries another one."""
    start = sweep_started("more", method="hicl", spec={"tags": ["late"]})
    shared = {"sweep": "more", "method": "hicl"}
    more = trial_life(0, {9: 0.9}, configuration="a" * 64, seed=7, **shared)
    other = trial_life(1, {9: 0.1}, configuration="e" * 64, seed=7, **shared)
    apply_events(board, [start, *more, *other])
    [whole] = reader.rows(Filters(method="hicl"))
    assert (whole.seeds, whole.trials) == ([0, 1, 2], 5)
    assert whole.chosen_by == {7: 0.9}  # it was the better of two there
    [first] = reader.rows(Filters(sweep="hicl"))
    assert (first.seeds, first.trials) == ([0, 1, 2], 3)
    [late] = reader.rows(Filters(tag="late"))
    assert (late.seeds, late.trials, late.dev_score.mean) == ([7], 2, 0.9)


def test_an_identity_does_not_change_what_is_chosen(board, reader) -> None:
    better = [
        event
        for seed in (0, 1)
        for event in trial_life(
            20 + seed, {9: 0.99}, sweep="hicl", method="hicl", configuration="f" * 64, seed=seed
        )
    ]
    apply_events(board, better)
    rows = reader.rows(Filters(identity="cls-real"), sort="dev")
    assert [row.method for row in rows] == ["simcse", "sncse"]
    [chosen] = reader.rows(Filters(method="hicl"))
    assert (chosen.configuration.hash[0], chosen.scores) == ("f", {})
