"""What choosing on dev was worth, from a sweep's stored scores: by API, command and page."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from letter_models import Letters
from page_text import copied
from stored_trials import apply_events

from cse_dashboards.page.app import create_app
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.identity import settings_of_groups
from cse_methods.evaluation.results import Evaluation
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.metrics import spearman
from cse_methods.tasks import SENTENCE_GROUPS, STS_TASKS, parse_tasks
from cse_platform.cli.leaderboard import main
from cse_platform.leaderboard import ranking
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.statistics.results import Interval
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.tracking.events import Event, SweepStarted, TrialEvaluated, TrialScore
from cse_platform.tracking.packing import evaluation_event

Make = Callable[..., Any]

Life = Callable[..., list[Event]]
Start = Callable[..., SweepStarted]

CONFIGURATIONS = {"a": (0, 1), "b": (2, 3)}
"""Two configurations with the numbers of their trials, a seed each; `b` is better on dev."""


@pytest.fixture(scope="module")
def lab_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lab's own dev set, which holds half of the built-in pairs of sts13."""
    pairs = load_pair_set("sts13", "builtin")
    rows = list(zip(pairs.first, pairs.second, pairs.gold, strict=True))[:60]
    file = tmp_path_factory.mktemp("lab") / "lab.tsv"
    lines = ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{gold}" for a, b, gold in rows)]
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="module")
def evaluations(lab_file: Path) -> dict[int, Evaluation]:
    """Test scores of the trials, which the lab's file has chosen."""
    dev = DevSelection.model_validate({"checkpoint": str(lab_file), "search": "stsb"})
    training = TrainingData(dev=dev, chosen_on=("lab", "stsb"), data="builtin")
    given = {"tasks": parse_tasks(["sts"]), "data": "builtin", "training": training}
    return {number: evaluate(Letters(skip=number), **given) for number in range(4)}


@pytest.fixture(scope="module")
def searched_url(
    evaluations: dict[int, Evaluation], filled_with: Make, sweep_started: Start, trial_life: Life
) -> str:
    """A sweep of eleven trials, of which four are evaluated, of two configurations, and another."""
    events: list[Event] = [sweep_started("other"), sweep_started("search")]
    for number in range(11):
        name = next((name for name, own in CONFIGURATIONS.items() if number in own), f"{number:x}")
        key = f"{number:x}f" * 32
        of = {"sweep": "search", "configuration": name * 64}
        dev = 0.5 + number / 10 if number < 4 else 0.3
        events += trial_life(number, {10: dev}, trial=key, seed=number, **of)
        if found := evaluations.get(number):
            of_trial = {"sweep": "search", "trial": key, "source": "builtin"}
            events.append(evaluation_event(**of_trial, evaluation=found))
    return filled_with(*events)


@pytest.fixture
def searched(searched_url: str, tmp_path: Path) -> Path:
    """A runs folder with a copy of it."""
    runs = tmp_path / "runs"
    runs.mkdir()
    copied(searched_url, runs)
    return runs


def url(runs: Path) -> str:
    return f"sqlite:///{runs / 'leaderboard.db'}"


def mean_of(evaluations: dict[int, Evaluation], task: str, numbers: tuple[int, ...]) -> float:
    """The mean over these trials of Spearman on the 60 pairs that the lab's file has too."""
    values = []
    for number in numbers:
        [found] = [one for one in evaluations[number].similarities if one.task == task]
        values.append(spearman(found.cosines[:60], found.gold[:60]))
    return float(np.mean(values))


def test_the_evaluated_trials_of_a_sweep_are_split_by_what_dev_shares(
    searched: Path, evaluations: dict[int, Evaluation]
) -> None:
    with open_leaderboard(url(searched)) as board:
        worth = board.choice("search")
        assert board.choice("other") is None
    assert worth is not None
    assert (worth.configurations, worth.seeds) == (2, 2)
    assert worth.dev_gain == pytest.approx(0.1)
    whole, shared, kept = worth.gains
    assert (whole.tasks, whole.pairs) == (STS_TASKS, 7 * 120)
    assert (shared.tasks, shared.pairs, kept.pairs) == (("sts13",), 60, 60)
    a, b = (mean_of(evaluations, "sts13", numbers) for numbers in CONFIGURATIONS.values())
    assert shared.gain == pytest.approx((b - a) / 2)
    assert shared.interval.low < shared.gain < shared.interval.high


def test_a_configuration_that_breaks_a_constraint_could_not_be_chosen(searched: Path) -> None:
    """The means are 0.55 of `a` and 0.75 of `b`, without which there is no choice."""
    for bound, chosen in ((0.7, False), (0.8, True)):
        with open_store(url(searched)) as store, store.writing() as session:
            find_sweep(session, "search").constraints = [f"dev <= {bound}"]
        with open_leaderboard(url(searched)) as board:
            assert (board.choice("search") is not None) is chosen


def test_pairs_that_share_a_sentence_are_drawn_together_where_an_evaluation_tells_them(
    searched: Path, evaluations: dict[int, Evaluation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a set that the package's table does not know."""
    [pairs] = [each for each in evaluations[0].similarities if each.task == "sts13"]
    groups = np.arange(len(pairs.gold)) // 8

    def read_interval() -> Interval:
        with open_leaderboard(url(searched)) as board:
            worth = board.choice("search")
        assert worth is not None
        return worth.gains[1].interval

    with monkeypatch.context() as patch:
        patch.setattr(ranking, "known_groups", lambda gold: groups)
        expected = read_interval()
    monkeypatch.setattr(ranking, "known_groups", lambda gold: None)
    assert read_interval() != expected
    score = TrialScore(
        task="sts13", split="test", metric=SENTENCE_GROUPS, value=0.125, identity="groups"
    )
    told = TrialEvaluated(
        time=datetime(2026, 1, 2, tzinfo=UTC), sweep="search", trial="0f" * 32, tasks=("sts13",),
        settings="groups", source="builtin", scores=(score,), similarities=(), seconds={},
        identities={"groups": settings_of_groups("sts13", pairs.data_sha256, groups)},
    )  # fmt: skip
    with open_store(url(searched)) as board:
        apply_events(board, [told])
    assert read_interval() == expected


def test_the_command_and_the_page_tell_it(searched: Path) -> None:
    options = ["search", "search", "--runs", str(searched)]
    told = CliRunner().invoke(main, options).output.splitlines()
    [first, second] = told[-2:]
    assert "choosing on stsb was worth +10.00 on dev" in first
    assert "of sts13, on the 60 rows that dev has too" in second
    found = json.loads(CliRunner().invoke(main, [*options, "--json"]).output)
    assert found["choice"]["gains"][1]["rows"] == "shared"
    page = create_app(url(searched)).test_client().get("/parts/search/sweeps/search").text
    assert "rows that dev has too" in page
