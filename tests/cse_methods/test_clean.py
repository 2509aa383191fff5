import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from letter_models import Letters

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData, choosing_pairs, pair_key, sentence_key
from cse_methods.data.pairs import GradedPair, PairSet
from cse_methods.evaluation.clean import LeftOut, clean_spearman, find_left_out, known_left_out
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.identity import rows_of_clean, settings_of_clean
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.metrics import spearman
from cse_methods.tasks import STS_TASKS, parse_tasks


def made(task: str, *pairs: tuple[str, str]) -> PairSet:
    return PairSet.of(task, "senteval", {"all": [GradedPair(a, b, 1.0) for a, b in pairs]})


def test_sentences_are_the_same_despite_case_punctuation_and_tokenisation() -> None:
    assert sentence_key("Don't  go, Mr. X!") == sentence_key("do n't go , mr . x") == "dontgomrx"
    assert sentence_key("Déjà 2") == sentence_key("déjà 2")  # composed in another way
    assert sentence_key("…!") == ""
    assert pair_key("A man.", "a DOG") == pair_key("A dog", "a man")
    assert pair_key("a man", "a man") != pair_key("a man", "a dog")


def test_a_clean_score_leaves_out_pairs_of_a_dev_set_or_an_earlier_task() -> None:
    sets = [
        made("sts12", ("a dog", "a cat"), ("a cow", "a pig"), ("A cow", "a pig")),
        made("sts13", ("A cat!", "a dog"), ("a hen", "a fox"), ("in dev", "too")),
        made("sts15", ("a hen", "a fox")),
    ]
    found = find_left_out(sets, {pair_key("too", "in dev")})
    assert found["sts12"].tolist() == [False, False, False]  # a pair that repeats in a task stays
    assert found["sts13"].tolist() == [True, False, True]
    assert "sts15" not in found  # without sts14, what stands before it is not known
    cosines, gold = np.arange(12, dtype=np.float32), np.arange(12.0)
    gold[[2, 7]] = 100, -100
    left_out = np.isin(np.arange(12), [2, 7])
    assert clean_spearman(cosines, gold, left_out) == pytest.approx(1)
    assert spearman(cosines, gold) < 0.6
    assert math.isnan(clean_spearman(cosines, gold, np.arange(12) < 3))  # nine rows


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_the_settings_of_a_clean_score_hold_its_rows(rows: list[bool]) -> None:
    left_out = np.array(rows)
    settings = settings_of_clean({"task": "sts12", "protocol": {"a": 1}}, "whole", left_out)
    kept = rows_of_clean(settings)
    assert kept is not None and kept[0] == "whole"
    assert kept[1].tolist() == [place for place, left in enumerate(rows) if not left]
    assert rows_of_clean({"task": "sts12", "protocol": {"a": 1}}) is None


@pytest.fixture
def chosen_on_test(tmp_path: Path) -> TrainingData:
    """Chosen by a lab's own file, which holds the first 20 pairs of the built-in sts13."""
    pairs = load_pair_set("sts13", "builtin")
    rows = zip(pairs.second[:20], pairs.first[:20], pairs.gold[:20], strict=True)
    file = tmp_path / "lab.tsv"
    lines = [f"{a.upper()}\t{b}\t{gold}" for a, b, gold in rows]
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    dev = DevSelection.model_validate({"checkpoint": str(file), "search": "stsb"})
    return TrainingData(dev=dev, chosen_on=("lab", "stsb"), data="builtin")


def test_an_evaluation_gives_clean_scores_and_their_average(chosen_on_test: TrainingData) -> None:
    found = evaluate(Letters(), parse_tasks(["sts"]), data="builtin", training=chosen_on_test)
    clean = {score.task: score for score in found.scores if score.metric == "clean"}
    whole = {score.task: score for score in found.scores if score.metric == "spearman"}
    assert clean.keys() == whole.keys() == {*STS_TASKS, "avg_sts"}
    [sts13] = [one for one in found.examples if one.task == "sts13"]
    assert clean["sts13"].value == spearman(sts13.values[20:], sts13.gold[20:])
    assert clean["sts12"].value == whole["sts12"].value  # no row is shared
    assert clean["avg_sts"].value == pytest.approx(np.mean([clean[t].value for t in STS_TASKS]))
    own = {score.identity for score in clean.values()}
    assert own.isdisjoint({score.identity for score in whole.values()})


def test_a_single_task_has_no_clean_score_and_a_lost_dev_set_costs_only_clean_scores(
    chosen_on_test: TrainingData, caplog: pytest.LogCaptureFixture
) -> None:
    lone = evaluate(Letters(), parse_tasks(["sts13"]), data="builtin", training=chosen_on_test)
    assert "clean" not in {score.metric for score in lone.scores}
    Path(chosen_on_test.dev.files["lab"].file).unlink()
    found = evaluate(Letters(), parse_tasks(["sts12"]), data="builtin", training=chosen_on_test)
    assert {score.metric for score in found.scores} >= {"spearman"}
    assert "clean" not in {score.metric for score in found.scores}
    assert "lab.tsv" in caplog.text


def test_the_manifest_has_the_counts_of_the_real_sets(shared: Path) -> None:
    data, counted = str(shared / "data"), {}
    sets = [load_pair_set(task, data) for task in STS_TASKS]
    earlier = find_left_out(sets, set())
    for names in ((), ("stsb",), ("sickr",), ("stsb", "sickr"), ("transfer_dev",)):
        dev = choosing_pairs(TrainingData(dev=DevSelection(), chosen_on=names, data=data))
        masks = find_left_out(sets, dev)
        for pairs in sets:
            in_dev = sum(key in dev for key in map(pair_key, pairs.first, pairs.second))
            repeated, left_out = (int(mask[pairs.task].sum()) for mask in (earlier, masks))
            whose = "+".join(names), pairs.task
            counted[whose] = LeftOut(*whose, len(pairs.gold), in_dev, repeated, left_out)
    assert counted == known_left_out()
