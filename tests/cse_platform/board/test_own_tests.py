import json
import re

import numpy as np
import pytest
from commands import invoke
from scored_boards import scored
from stored_trials import apply_events, url_of
from sweep_events import sweep_started, trial_life

from cse_dashboards.report import chapters, rows_of
from cse_methods.evaluation.identity import settings_of_groups
from cse_methods.tasks import SENTENCE_GROUPS, STS_TASKS
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.errors import NotFoundError, QueryError
from cse_platform.launch.outcome import outcome_lines
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.families import is_clean, task_of
from cse_platform.leaderboard.records import Estimate
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.board_printed import paper_board
from cse_platform.presentation.formats import to_latex
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import Event, SweepFinished, TrialEvaluated

OWN = ("law", "two_clean")
"""The second has a name that ends as those of clean scores do."""
PAIRS = 80
METHODS = ("rankcse", "simcse")


@pytest.fixture
def own_board(board) -> str:
    """Two methods of one seed each: the groups of `law` are known, those of the other set not."""
    told: list[Event] = []
    for number, method in enumerate(METHODS):
        key = f"{number + 10:02x}" + "0" * 62
        told.append(sweep_started(method, method=method))
        told += trial_life(
            0, {0: 0.5, 9: 0.7}, sweep=method, method=method, configuration=key[::-1], trial=key
        )
        for tasks in (STS_TASKS, OWN):
            evaluation = scored(key, noise=1 + 2 * number, seed=number, tasks=tasks)
            if tasks == OWN:  # half of the pairs of `law` share one sentence
                groups = np.maximum(np.arange(PAIRS) - PAIRS // 2, 0)
                settings = settings_of_groups("law", "real-law", groups)
                score = {"task": "law", "split": "test", "metric": SENTENCE_GROUPS, "value": 0.5}
                changes = evaluation.model_dump()
                changes["scores"] = [*changes["scores"], {**score, "identity": "groups"}]
                changes["identities"] = {**changes["identities"], "groups": settings}
                evaluation = TrialEvaluated.model_validate(changes)
            told.append(evaluation.model_copy(update={"sweep": method}))
    apply_events(board, told)
    return url_of(board)


def width(score: Estimate) -> float:
    assert score.interval is not None and score.interval.over == "examples"
    return score.interval.high - score.interval.low


def test_own_sets_are_columns_with_intervals_over_groups(own_board) -> None:
    with Leaderboard(open_store(own_board)) as reader:
        rows = reader.rows(tasks="own")
        first, second = rows
        assert [row.method for row in rows] == ["rankcse", "simcse"]
        assert tuple(first.scores) == tuple(second.scores) == OWN
        assert first.headline == "law" and first.rank is not None and first.rank.among == 2
        # Half of the pairs come or go as one, so the interval of `law` is the wider one.
        assert width(first.scores["law"]) > 1.25 * width(first.scores["two_clean"])
        compared = reader.compare("rankcse", "simcse", tasks="own")
        assert [task.task for task in compared.tasks] == list(OWN)
        assert all(task.effect > 0 and task.interval is not None for task in compared.tasks)
        unknown = compared.limits.ungrouped
        assert "two_clean" in unknown and "law" not in unknown
        matrix = reader.compare_all(tasks="own")
        assert matrix.tasks == OWN


def test_own_scores_alone_are_named_by_the_board_and_shown_by_the_report(board) -> None:
    told: list[Event] = []
    for number, method in enumerate(METHODS):
        told += [sweep_started(method, method=method)]
        told += trial_life(0, {9: 0.7}, sweep=method, method=method, configuration=f"c{number}")
        evaluation = scored(f"c{number}-42", noise=1 + 2 * number, seed=number, tasks=OWN)
        told.append(evaluation.model_copy(update={"sweep": method}))
    apply_events(board, told)
    ranked = invoke(cse_leaderboard, env={"CSE_STORE": url_of(board)})
    assert "own test sets; --tasks own shows them" in ranked.stderr
    where = {"CSE_STORE": url_of(board)}
    refused = invoke(cse_leaderboard, "--published", "rankcse:99", env=where, code=1)
    assert refused.stderr.startswith("Error: no table '99' of rankcse")
    with Leaderboard(open_store(url_of(board))) as reader:
        by_title = {chapter.title: chapter for chapter in chapters(reader, "rankcse")}
        assert [row.method for row in rows_of(reader, "rankcse")] == list(METHODS)
    of = {"sweep": "rankcse", "method": "rankcse", "configuration": "bea7" * 16}
    apply_events(board, trial_life(1, {9: 0.9}, **of))
    other = {"checkpoint": "x", "search": "x", "identity": "x", "source": "file", "corpus": "x"}
    of |= {"configuration": "bea8" * 16}  # the best on a dev set without scores is no news
    apply_events(board, trial_life(2, {9: 0.9}, **of, dev=other))
    own = invoke(cse_leaderboard, "--tasks", "own", "--format", "markdown", env=where)
    assert "rankcse@bea7bea7 on mini, the best on dev stsb, has no test scores of own" in own.stderr
    assert "bea8bea8" not in own.stderr
    assert "Left out for want of such scores: rankcse@bea8bea8, rankcse@bea7bea7." in own.stdout
    [ranking] = by_title["Ranking"].pictures
    assert "law" in by_title["Ranking"].table and "No row has" not in ranking.caption
    beside = {one.name: one for one in by_title["Beside other methods"].pictures}
    assert beside["differences"].missing is None


def test_they_are_shown_where_they_are_asked_for_and_on_the_page(own_board) -> None:
    def shown(*options: str, code: int = 0) -> str:
        told = invoke(cse_leaderboard, *options, env={"CSE_STORE": own_board}, code=code)
        return told.output

    for options in (["--format", "latex"], ["--format", "csv"]):
        text = shown("--tasks", "own", *options).replace("\\_", "_")
        assert all(name in text for name in OWN), options
    latex = shown("--tasks", "own", "--format", "latex")
    assert r"\caption{Spearman on law and two\_clean, x 100, " in latex, latex
    latex = shown("compare", "rankcse", "simcse", "--tasks", "own", "--format", "latex")
    assert "RankCSE against SimCSE, scores x 100" in latex and "RankCSE is above SimCSE" in latex
    assert "A: rankcse@" in latex and "B: simcse@" in latex  # as commands take them
    assert "law" not in shown()
    for near in ("laws", "law"):
        refused = shown("--sort", near, code=1)
        assert f"no column '{near}' to sort by; 'law' is one of --tasks own" in refused
    rows = json.loads(shown("--tasks", "own", "--json"))
    assert [list(row["test"]) for row in rows] == [list(OWN)] * 2
    assert all(row["test_interval"]["law"] for row in rows)
    from cse_dashboards.page.app import create_app

    client = create_app(own_board).test_client()
    compared = "/compare?rows=rankcse,simcse&tasks=own"
    for address in ("/?tasks=own", "/parts/standing/?tasks=own", compared, "/as/tex/?tasks=own"):
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert all(name in answer.text for name in ("law", "two")), address


def test_the_set_that_most_rows_have_ranks_and_each_has_a_column(own_board) -> None:
    key, best = "c" * 64, {9: 0.8}  # the best on dev comes first, and has a set of its own
    told: list[Event] = [sweep_started("hicl", method="hicl")]
    told += trial_life(0, best, sweep="hicl", method="hicl", configuration=key, trial=key)
    told.append(scored(key, noise=1, tasks=("faq",)).model_copy(update={"sweep": "hicl"}))
    with open_store(own_board) as store:
        apply_events(store, told, journal="k")

    def show(*options: str) -> str:
        return invoke(cse_leaderboard, "--tasks=own", *options, env={"CSE_STORE": own_board}).output

    title, head, *_ = (shown := show()).splitlines()
    assert title.startswith("Ranking by law, x 100")
    assert re.search(r"law .* two clean .* faq .* dev ", head)
    assert "Each own test set has a column; sort by another one to rank by it." in shown
    assert show("--sort=faq").startswith("Ranking by faq, x 100")
    from cse_dashboards.page.app import create_app

    client = create_app(own_board).test_client()
    assert "Leaderboard by faq" in client.get("/parts/standing/?tasks=own&sort=faq").text
    assert 'own test sets: <a href="/?tasks=own">' in client.get("/").text


def test_a_name_that_ends_like_a_metric_is_a_task_of_its_own() -> None:
    assert (task_of("two_clean"), is_clean("two_clean")) == ("two_clean", False)
    assert (task_of("stsb_clean"), is_clean("stsb_clean")) == ("stsb", True)


def test_a_sweep_with_own_scores_alone_names_the_board_of_own_sets(board) -> None:
    """Each set has its own spread in the line of test scores."""
    told: list[Event] = [sweep_started("simcse")]
    for seed, key in enumerate(("a" * 64, "b" * 64)):
        told += trial_life(
            seed, {9: 0.7}, sweep="simcse", method="simcse", configuration="c", seed=seed, trial=key
        )
        evaluation = scored(key, noise=1, seed=seed, tasks=OWN)
        told.append(evaluation.model_copy(update={"sweep": "simcse"}))
    apply_events(board, [*told, SweepFinished(sweep="simcse", state="COMPLETE")])
    lines = outcome_lines(Leaderboard(board), "simcse")
    [scores] = [line for line in lines if line.startswith("test ")]
    score = r"\d\d\.\d\d ±\d\.\d\d"
    assert re.fullmatch(rf"test law {score}, two_clean {score} \(built-in data\)", scores)
    [command] = [line for line in lines if line.endswith("# all methods, on own test sets")]
    assert "--tasks own" in command
    with Leaderboard(board) as reader:
        apply_events(
            board,
            [
                scored(key, noise=1, seed=seed, tasks=OWN, reading="avg").model_copy(
                    update={"sweep": "simcse"}
                )
                for seed, key in enumerate(("a" * 64, "b" * 64))
            ],
        )
        twice = [line for line in outcome_lines(reader, "simcse") if line.startswith("test ")]
        assert len({re.findall("evaluation ([^,)]+)", line)[0] for line in twice}) == len(twice) > 1
        with pytest.raises(QueryError, match=r"several rows .*; choose one with --identity$"):
            reader.compare("simcse", "simcse", tasks="own")
        latex = to_latex(paper_board(Board(reader.rows(tasks="own"), family="own")))
        assert len(set(re.findall(r"SimCSE [^&]*evaluation [^&]*", latex))) == 2
    with pytest.raises(NotFoundError, match=r"'simcse' has no .* of sts; choose --tasks own, or"):
        Leaderboard(board).compare("simcse", "simcse")
    life = trial_life(0, {9: 0.7}, sweep="other", method="rankcse", trial="c" * 64)
    other = scored("c" * 64, noise=1).model_copy(update={"sweep": "other"})
    apply_events(board, [sweep_started("other"), *life, other], journal="other")
    with pytest.raises(NotFoundError, match=r"'simcse' has no test scores of sts; add them with"):
        Leaderboard(board).compare("simcse", "other")
    both = scored("a" * 64, noise=1, tasks=("stsb",)).model_copy(update={"sweep": "simcse"})
    apply_events(board, [both])
    commands = [line for line in outcome_lines(Leaderboard(board), "simcse") if "# all" in line]
    assert ["--tasks own" in line for line in commands] == [False, True]
