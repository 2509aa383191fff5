"""Which published number is like a row of ours, and how far ours is from it."""

from collections.abc import Callable
from typing import Any

import pytest

from cse_platform.leaderboard.published.papers import find_gap, has_settings_of
from cse_platform.leaderboard.published.rows import (
    PublishedRow,
    merge_repeated_rows,
    published_rows,
)
from cse_platform.leaderboard.records import Estimate, LeaderboardRow

Ours = Callable[..., LeaderboardRow]
Estimated = Callable[..., Estimate]
LISTMLE = {"rank_loss": "listmle", "gamma": 1.0, "tau2": 0.0125}


def published(**fields: Any) -> PublishedRow:
    """A row that a RankCSE of any settings stands in."""
    defaults: dict[str, Any] = {
        "paper": "survey",
        "table": "1",
        "backbone": "bert-base",
        "system": "rankcse",
        "method": "rankcse",
        "settings": {},
        "configuration": {},
        "split": "test",
        "scores": {"avg_sts": 0.8},
        "std": {},
        "sources": ("survey 1",),
    }
    return PublishedRow(**(defaults | fields))


@pytest.mark.parametrize(
    ("wanted", "stands"),
    [
        ({}, True),
        ({"rank_loss": "listmle"}, True),
        ({"rank_loss": "listnet"}, False),
        ({"gamma": 1}, True),
        ({"gamma": {"not": 0}}, True),
        ({"gamma": {"not": 1}}, False),
        ({"tau3": 0.05}, False),
        ({"tau3": {"not": 0}}, False),
        (None, False),
    ],
)
def test_settings_must_be_there_and_equal(
    wanted: dict[str, Any] | None, stands: bool, our_row: Ours
) -> None:
    assert has_settings_of(published(configuration=wanted), our_row(values=LISTMLE).setup) is stands


def test_method_and_backbone_must_be_equal(our_row: Ours) -> None:
    assert not has_settings_of(published(method="simcse"), our_row().setup)
    assert not has_settings_of(published(backbone="bert-large"), our_row().setup)


def test_who_chose_on_transfer_tasks_is_set_apart(our_row: Ours) -> None:
    told = published(settings={"selected_on": "transfer_dev"})
    assert has_settings_of(told, our_row(search="transfer_dev").setup)
    assert not has_settings_of(told, our_row(search="stsb").setup)
    assert not has_settings_of(published(), our_row(search="transfer_dev").setup)
    assert has_settings_of(published(), our_row(search="sickr").setup)


def test_who_was_trained_on_texts_of_test_sets_stands_in_no_line(our_row: Ours) -> None:
    for told in (published(), published(settings={"corpus": "sts (transductive)"})):
        assert not has_settings_of(told, our_row(corpus="sts (transductive)").setup)


def test_a_corpus_that_is_named_must_be_ours(our_row: Ours) -> None:
    told = published(settings={"corpus": "wikitext103+wiki1m"})
    assert has_settings_of(told, our_row(corpus="wiki1m+wikitext103").setup)
    assert not has_settings_of(told, our_row(corpus="wiki1m").setup)
    assert not has_settings_of(told, our_row().setup)
    assert has_settings_of(published(), our_row(corpus="wiki1m").setup)


def scored(our_row: Ours, score: Estimate, **fields: Any) -> LeaderboardRow:
    return our_row(scores={"avg_sts": score}, headline="avg_sts", **fields)


def test_a_gap_by_hand(our_row: Ours, estimated: Estimated) -> None:
    row = scored(our_row, estimated(0.79, 0.80, interval=(0.73, 0.86)), values=LISTMLE)
    found = find_gap(row, published_rows())
    assert found is not None
    assert (found.column, found.published, found.source) == ("avg_sts", 0.8036, "rankcse table2")
    assert found.difference == pytest.approx(0.795 - 0.8036)
    assert found.inside is True


@pytest.mark.parametrize(
    ("interval", "inside"),
    [((0.8036, 0.81), True), ((0.8037, 0.81), False), ((0.79, 0.8035), False), (None, None)],
)
def test_inside_is_of_our_interval(
    interval: tuple[float, float] | None,
    inside: bool | None,
    our_row: Ours,
    estimated: Estimated,
) -> None:
    found = find_gap(
        scored(our_row, estimated(0.8, interval=interval), values=LISTMLE), published_rows()
    )
    assert found is not None
    assert found.inside is inside


def test_nothing_is_compared_on_dev_or_built_in_data(our_row: Ours, estimated: Estimated) -> None:
    rows, score = published_rows(), estimated(0.8)
    assert find_gap(our_row(values=LISTMLE, scores={"avg_sts": score}), rows) is None
    assert find_gap(scored(our_row, score, values=LISTMLE, source="builtin"), rows) is None
    on_dev = our_row(values=LISTMLE, scores={"stsb": score}, headline="stsb")
    assert find_gap(on_dev, [published(split="dev", scores={"stsb": 0.81})]) is None


@pytest.mark.parametrize(
    ("score", "dev", "compared"),
    [
        ("hub", "builtin", True),
        ("senteval", "imported", True),
        ("builtin", "hub", False),
        ("imported", "senteval", False),
        ("", "senteval", True),
        ("", "builtin", False),
        ("", "imported", False),
    ],
)
def test_it_is_the_data_of_the_score_that_counts(
    score: str, dev: str, compared: bool, our_row: Ours, estimated: Estimated
) -> None:
    row = scored(our_row, estimated(0.8, source=score), values=LISTMLE, source=dev)
    assert (find_gap(row, published_rows()) is not None) is compared


def test_no_gap_where_we_or_they_have_no_score(our_row: Ours, estimated: Estimated) -> None:
    assert find_gap(our_row(values=LISTMLE, headline="avg_sts"), published_rows()) is None
    row = scored(our_row, estimated(0.8), values=LISTMLE)
    assert find_gap(row, [published(scores={"stsb": 0.8})]) is None
    assert find_gap(row, [published(unstated=("avg_sts",))]) is None
    assert find_gap(row, []) is None


def test_whose_number_comes_first(our_row: Ours, estimated: Estimated) -> None:
    row = scored(our_row, estimated(0.8), values=LISTMLE)

    def compared(*numbers: PublishedRow) -> float:
        found = find_gap(row, numbers)
        assert found is not None
        return found.published

    exact = {"configuration": LISTMLE, "sources": ("survey 2",)}
    first = published(scores={"avg_sts": 0.71})
    repeated = published(scores={"avg_sts": 0.72}, sources=("a 1", "b 1"))
    specific = published(scores={"avg_sts": 0.73}, **exact)
    own = published(scores={"avg_sts": 0.74}, paper="rankcse")
    assert compared(first, repeated, specific, own) == 0.74
    assert compared(first, repeated, specific) == 0.73
    assert compared(first, repeated) == 0.72
    assert compared(first, published(scores={"avg_sts": 0.70}, sources=("c 1",))) == 0.71


@pytest.mark.parametrize("batch_size", [64, 512])
def test_the_number_that_most_papers_repeat(
    batch_size: int, our_row: Ours, estimated: Estimated
) -> None:
    row = scored(our_row, estimated(0.76), method="simcse", values={"batch_size": batch_size})
    for rows in (published_rows(), merge_repeated_rows(published_rows())):
        found = find_gap(row, rows)
        assert found is not None
        # Not RankCSE's 75.52 over five seeds, nor HiCL's 76.01 with batches of 64: re-runs.
        assert (found.published, found.source) == (0.7625, "compcse table1")


def test_a_rerun_is_compared_only_where_no_other_number_is_like_ours(
    our_row: Ours, estimated: Estimated
) -> None:
    values = {"batch_size": 256, "precision": "fp32"}
    row = scored(our_row, estimated(0.74), method="simcse", values=values)
    found = find_gap(row, published_rows())
    assert found is not None
    assert (found.published, found.source) == (0.7625, "compcse table1")
    found = find_gap(row, [one for one in published_rows() if one.rerun])
    assert found is not None
    assert (found.published, found.source) == (0.74, "hicl table1")


def test_no_rerun_is_ahead_of_a_number_that_is_cited(our_row: Ours, estimated: Estimated) -> None:
    """HiCL's baselines say most of the configuration, and are printed in three of its tables."""
    values = {"batch_size": 128, "precision": "fp16"}
    row = scored(our_row, estimated(0.8), method="sncse", backbone="roberta-large", values=values)
    for rows in (published_rows(), merge_repeated_rows(published_rows())):
        found = find_gap(row, rows)
        assert found is not None
        assert (found.published, found.source) == (0.8177, "compcse table1")


def test_an_ablated_configuration_is_compared_with_its_own_line(
    our_row: Ours, estimated: Estimated
) -> None:
    values = {"contrastive_weight": 1.0, "beta": 1.0, "gamma": 0.0, "rank_loss": "listnet"}
    found = find_gap(scored(our_row, estimated(0.77), values=values), published_rows())
    assert found is not None
    assert (found.published, found.source) == (0.7693, "rankcse table4")


def test_the_source_is_the_first_of_the_papers_tables(our_row: Ours, estimated: Estimated) -> None:
    values = {"whitening": "shuffled-group", "groups": 384, "positives": 3}
    row = scored(our_row, estimated(0.78), method="whitenedcse", values=values)
    for rows in (published_rows(), merge_repeated_rows(published_rows())):
        found = find_gap(row, rows)
        assert found is not None
        # Tables 3 to 6 say more about the configuration, and repeat the number.
        assert (found.published, found.source) == (0.7878, "whitenedcse table1")
