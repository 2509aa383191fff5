import json

import numpy as np
import pytest
from commands import invoke
from mteb_board import *  # noqa: F403
from mteb_board import BENCHMARK, KINDS, score_kinds
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.filters import EVERY_ROW, Filters
from cse_platform.stores.sql.store import open_store
from cse_platform.tracking.events import Event


def shown(url: str, *options: str) -> str:
    told = invoke(cse_leaderboard, *options, env={"CSE_STORE": url})
    assert told.exit_code == 0, told.output
    return told.output


def test_columns_are_in_the_order_of_the_tasks_and_a_benchmark_ranks(with_kinds) -> None:
    with Leaderboard(open_store(with_kinds)) as reader:
        rows = reader.rows()
        best = rows[0]
        assert [row.method for row in rows] == ["simcse", "esimcse", "sncse"]
        assert [*best.scores] == [*KINDS, BENCHMARK]
        assert best.headline == BENCHMARK and best.rank is not None and best.rank.among == 3
        assert best.benchmarks == {BENCHMARK: tuple(KINDS)[:3]}
        # Real data, though the package's own sets were the built-in ones in this evaluation.
        assert best.scores["mteb:Zebra"].source == "hub"
        [alone] = [row for row in rows if row.method == "sncse"]
        over = {
            name: score.interval and score.interval.over for name, score in alone.scores.items()
        }
        assert over == dict.fromkeys(alone.scores, "examples") | {"mteb:Clusters": None}
        of_benchmark = reader.rows(tasks=BENCHMARK, sort="mteb:Intent/de")
        values = [row.scores["mteb:Intent/de"].mean for row in of_benchmark]
        assert values == sorted(values, reverse=True)
    text = shown(with_kinds, "--tasks", BENCHMARK, "--show", "scores")
    assert "mteb:Clusters" not in text and text.index("mteb:Zebra") < text.index("mteb:Pairs")
    for form in ("json", "csv", "markdown", "latex", "html"):
        tables = ["--show", "all"] if form == "html" else []
        text = shown(with_kinds, "--format", form, "--sort", BENCHMARK, *tables)
        assert all(name in text for name in (*KINDS, BENCHMARK)), form


def test_every_kind_is_compared_from_its_values(with_kinds) -> None:
    with Leaderboard(open_store(with_kinds)) as reader:
        found = reader.compare("simcse", "esimcse", tasks="mteb")
        zebra, pairs, intent, clusters = found.tasks
        assert [task.task for task in found.tasks] == [*KINDS]
        assert [task.examples for task in found.tasks] == [60, 60, 60, None]
        assert [task.williams_p is None for task in found.tasks] == [True, True, False, True]
        assert zebra.effect > 0.1 and max(zebra.p, pairs.p, intent.p) < 0.05 < clusters.p
        assert found.limits.unpaired == ("mteb:Clusters",)
        assert found.limits.ungrouped == ("mteb:Intent/de",)
        assert found.average is None  # one of the tasks is none of the benchmark's
        found = reader.compare("simcse", "esimcse", tasks=BENCHMARK)
        assert found.average is not None and found.average.task == BENCHMARK
        means = [task.effect for task in found.tasks]
        assert found.average.effect == pytest.approx(np.mean(means)) and len(means) == 3
        assert reader.compare_all(tasks=BENCHMARK).average == BENCHMARK
    text = shown(with_kinds, "compare", "simcse", "esimcse", "--tasks", "mteb")
    assert "No values of the same examples of mteb:Clusters: over seeds only." in text


def test_a_mean_stays_with_its_tasks_and_is_filled_in_for_seeds_without_it(board) -> None:
    keys = [f"{seed:064x}" for seed in range(3)]
    told: list[Event] = [sweep_started("simcse")]
    for seed, key in enumerate(keys):
        of = {"sweep": "simcse", "seed": seed, "trial": key}
        told += trial_life(seed, {0: 0.5, 9: 0.7}, configuration="c" * 64, **of)
        one = score_kinds(key, noise=1, seed=seed)
        scores = [score for score in one.scores if seed != 1 or score.task != BENCHMARK]
        told.append(one.model_copy(update={"scores": tuple(scores)}))
    first = dict(list(KINDS.items())[:1])
    later = score_kinds(keys[0], noise=1, version="3", tasks=first)
    told.append(later)
    apply_events(board, told)
    with Leaderboard(board) as reader:
        whole, other = reader.rows()
        assert set(whole.scores) == {*KINDS, BENCHMARK}
        assert [*whole.scores[BENCHMARK].values] == [0, 1, 2]
        values = [whole.scores[task].values[1] for task in whole.benchmarks[BENCHMARK]]
        assert whole.scores[BENCHMARK].values[1] == pytest.approx(np.mean(values))
        assert [(name, score.identity) for name, score in other.scores.items()] == [
            ("mteb:Zebra", "mteb:Zebra 3")
        ]


def test_a_sort_of_no_rows_is_no_mistake_and_an_unknown_family_is(with_kinds) -> None:
    with Leaderboard(open_store(with_kinds)) as reader:
        assert reader.rows(Filters(backbone="bert-large"), sort="mteb:Zebra") == []
        assert len(reader.rows(EVERY_ROW, tasks="sts", sort="mteb:Zebra")) == 3
    told = invoke(cse_leaderboard, "--tasks", "sst", code=2, env={"CSE_STORE": with_kinds})
    assert "'mteb'" in told.output
    record = json.loads(shown(with_kinds, "show", "simcse", "--json"))
    assert [score["task"] for score in record["scores"] if score["split"] == "test"] == [
        *KINDS,
        BENCHMARK,
    ]
