from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import started_papers
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from cse_methods.augmentation.pieces import span_length
from cse_methods.augmentation.registry import (
    AugmentationName,
    View,
    change_embeddings,
    change_pieces,
)
from cse_methods.errors import TrainingError
from cse_methods.losses.info_nce import info_nce
from cse_methods.papers.simcse import AugmentedSimCSE
from cse_methods.training.augmented_view import edit_rows, encode_view
from cse_methods.training.student import Batch, Student

configured = partial(started_papers.configured, "simcse")
NAMES: tuple[AugmentationName, ...] = get_args(AugmentationName)
MASK = 103
LONGEST = 30
TEXTS = ["A small dog runs over the green grass.", "The pilot thanks the nurse."]
contents = st.lists(st.integers(1000, 1030), max_size=30)
rates = st.sampled_from([0.1, 0.15, 0.29, 0.4])


def drawn(
    content: list[int], *view: tuple[AugmentationName, float], seed: int, longest: int = LONGEST
) -> list[int]:
    torch.manual_seed(seed)
    return change_pieces(content, view, longest=longest, mask=MASK)


@settings(max_examples=25)
@given(content=contents, rate=rates, seed=st.integers(0, 99), longest=st.integers(4, LONGEST))
def test_word_pieces_are_shuffled_deleted_repeated_or_masked(content, rate, seed, longest) -> None:
    count, share = len(content), round(rate * len(content))
    assert Counter(drawn(content, ("shuffle", 1.0), seed=seed)) == Counter(content)
    assert drawn(content, ("reverse", 1.0), seed=seed) == content[::-1]
    left = drawn(content, ("delete", rate), seed=seed)
    assert len(left) == count - share
    assert not Counter(left) - Counter(content)
    assert bool(left) == bool(content)
    longer = drawn(content, ("repeat", rate), seed=seed, longest=longest)
    assert len(longer) == max(count, min(count + share, longest))
    rest = iter(longer)
    assert all(piece in rest for piece in content)  # in the same order
    assert set(longer) == set(content)


def test_a_span_has_its_length_and_changes_follow_one_another() -> None:
    assert [span_length(n, 0.2) for n in (1, 4, 5, 9, 10, 30)] == [1, 1, 1, 1, 2, 6]
    spans = {tuple(drawn([7, 8, 9, 6], ("span", 0.5), seed=seed)) for seed in range(40)}
    assert spans == {(MASK, MASK, 9, 6), (7, MASK, MASK, 6), (7, 8, MASK, MASK)}
    with pytest.raises(TrainingError, match="span hides word pieces by a mask"):
        change_pieces([7], [("span", 0.2)], longest=LONGEST)
    # A copy of one of two pieces, then half of the three masked: never a mask twice.
    both: View = [("repeat", 0.5), ("span", 0.4)]
    for view, masks in ((both, {1}), (both[::-1], {1, 2})):
        assert {drawn([7, 8], *view, seed=seed).count(MASK) for seed in range(20)} == masks


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), rate=rates, seed=st.integers(0, 99)
)
def test_cutoffs_zero_their_share_of_embeddings_and_noise_has_its_deviation(
    lengths: list[int], rate: float, seed: int
) -> None:
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)).long()
    vectors = torch.ones(*mask.shape, 20)

    def changed(name: AugmentationName) -> Tensor:
        torch.manual_seed(seed)
        return change_embeddings(vectors, mask, view=[(name, rate)])

    real = mask.bool()
    tokens, features = changed("token_cutoff"), changed("feature_cutoff")
    assert (1 - tokens[:, :, 0]).sum(dim=1).tolist() == [int(n * rate) for n in lengths]
    assert tokens.eq(tokens[:, :, :1]).all()
    assert (1 - features[:, 0]).sum(dim=1).tolist() == [int(rate * 20)] * len(lengths)
    assert features.eq(features[:, :1]).all()
    elements = changed("element_cutoff")
    zeros = (1 - elements).sum(dim=(1, 2)).tolist()
    assert zeros == [int(20 * n * rate) for n in lengths]
    assert tokens[~real].all() and elements[~real].all()
    torch.manual_seed(seed)
    noise = torch.randn_like(vectors)
    assert torch.equal(changed("gaussian_noise"), vectors + rate * noise)
    assert vectors.eq(1).all()


@pytest.mark.parametrize(("first", "zeros"), [("token_cutoff", 0), ("gaussian_noise", 40)])
def test_embeddings_are_changed_in_the_order_of_the_view(first, zeros) -> None:
    """Two of five tokens are cut, and noise fills them where it comes later."""
    both: View = [("token_cutoff", 0.4), ("gaussian_noise", 0.4)]
    edit = edit_rows(both if first == both[0][0] else both[::-1], [5]).embeddings
    assert edit is not None
    changed = edit(torch.ones(1, 5, 20), torch.ones(1, 5))
    assert changed.eq(0).sum() == zeros
    assert not changed.eq(1).any()


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_positions_are_permuted_in_each_row(lengths: list[int]) -> None:
    edits = edit_rows([("permuted_positions", 1.0)], lengths)
    assert edits.positions is not None
    assert [sorted(row) for row in edits.positions] == [list(range(n)) for n in lengths]
    assert not edits.are_of_rows


def test_each_augmentation_changes_one_view(tiny_bert: Path) -> None:
    """The other one is the sentence as it is; each view is drawn anew."""
    student = Student.from_config(configured(tiny_bert, dropout=0.0, head=False))
    pieces = student.pieces(TEXTS, student.encoder.template)

    def view(*names: AugmentationName) -> Tensor:
        return encode_view(student, pieces, [(name, 0.4) for name in names], max_length=32)

    plain = view()
    assert torch.equal(view(), plain)
    for name in NAMES:
        torch.manual_seed(0)
        changed, again = view(name), view(name)
        assert not torch.isclose(changed, plain, atol=1e-4).all(dim=1).any(), name
        assert torch.equal(changed, again) == (name == "reverse"), name


def test_the_loss_is_of_the_two_views(tiny_bert: Path) -> None:
    config = configured(tiny_bert, views=[[], ["reverse"]], dropout=0.0, head=False)
    student = Student.from_config(config)
    pieces = student.pieces(TEXTS, student.encoder.template)
    views = [encode_view(student, pieces, view, max_length=32) for view in ([], [("reverse", 1.0)])]
    found = AugmentedSimCSE(config)(student, Batch(TEXTS, np.arange(2)))
    expected = info_nce(*views, temperature=config.temperature)
    torch.testing.assert_close(found, {"contrastive": expected})


def test_unknown_augmentations_and_rates_without_effect_are_refused() -> None:
    pairs = {"supervision": "pairs", "corpus": {"name": "a.csv", "columns": ["x", "y"]}}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"span_rate": 0.3}, r"span_rate=0\.3 has no effect .*leave it out, or take views with sp"),
        ({"views": [["delete"], []], "delete_rate": 0.5}, "less than 0.5"),
        ({"views": [["delete"]]}, "Field required"),
        ({"views": [["swap"], []]}, "'shuffle', 'reverse', 'delete'"),
        ({"views": [["delete"], []], **pairs}, "when: {supervision: null}"),
    ]
    for given_settings, told in refused:
        with pytest.raises(ValidationError, match=told):
            configured(**given_settings)
