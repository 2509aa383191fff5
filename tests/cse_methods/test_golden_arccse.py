"""ArcCSE's losses and spans reproduce the stored values of its equations."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cse_methods.augmentation.spans import NestedSpans, mask_span
from cse_methods.losses.arc_con import arc_con, masking_triplet

Values = dict[str, Tensor]


def margin_loss(inputs: Values, params: dict[str, Any]) -> Tensor:
    z, margin = inputs["z"], params["margin_degrees"]
    return arc_con(z[:, 0], z[:, 1], margin_degrees=margin, temperature=params["temp"])


def triplet_loss(inputs: Values, params: dict[str, Any]) -> Tensor:
    return masking_triplet(*inputs["h"].unbind(1), margin=params["tri_margin"])


def whole_loss(inputs: Values, params: dict[str, Any]) -> Values:
    contrastive, triplet = margin_loss(inputs, params), triplet_loss(inputs, params)
    return {
        "loss": contrastive + params["lam"] * triplet,
        "arccon": contrastive,
        "triplet": triplet,
    }


CASES: dict[str, Callable[[Values, dict[str, Any]], Values]] = {
    "arccse_arccon_a": lambda inputs, params: {"loss": margin_loss(inputs, params)},
    "arccse_triplet_a": lambda inputs, params: {"loss": triplet_loss(inputs, params)},
    "arccse_full_a": whole_loss,
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients(name: str, golden: Callable[[str], Any]) -> None:
    golden(name).is_reproduced_by(CASES[name], without=frozenset({"logits", "delta"}))


def test_spans(golden: Callable[[str], Any]) -> None:
    case = golden("arccse_spans_a")
    rates = {"light_rate": case.params["light_rate"], "heavy_rate": case.params["heavy_rate"]}
    for row, pieces in enumerate(case.inputs["lengths"].tolist()):
        spans = NestedSpans.of(pieces, **rates)
        assert (spans.light, spans.heavy) == (
            case.outputs["light_length"][row],
            case.outputs["heavy_length"][row],
        )
        starts = {name: int(case.inputs[f"{name}_start"][row]) for name in ("light", "heavy")}
        places = spans.heavy_starts(starts["light"])
        assert (places[0], places[-1]) == (
            case.outputs["heavy_low"][row],
            case.outputs["heavy_high"][row],
        )
        for name, length in (("light", spans.light), ("heavy", spans.heavy)):
            masked = mask_span([0] * pieces, starts[name], length, mask=1)
            assert masked == case.outputs[f"{name}_mask"][row][:pieces].tolist()


def test_every_case_is_here(golden_names: Callable[..., set[str]]) -> None:
    assert golden_names("arccse_*") == CASES.keys() | {"arccse_spans_a"}


@given(pieces=st.integers(1, 60), light=st.floats(0.05, 0.5), more=st.floats(0.05, 0.5))
def test_the_heavy_span_contains_the_light_one(pieces: int, light: float, more: float) -> None:
    spans = NestedSpans.of(pieces, light_rate=light, heavy_rate=light + more)
    assert 1 <= spans.light <= spans.heavy <= pieces
    for start in spans.light_starts:
        assert start + spans.light <= pieces
        places = spans.heavy_starts(start)
        assert places
        for around in places:
            assert around <= start
            assert start + spans.light <= around + spans.heavy <= pieces


def test_the_margin_by_hand() -> None:
    """Positives at 60 degrees with a margin of 30 count as orthogonal ones."""
    angle = math.radians(60)
    anchors = torch.tensor([[1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)
    positives = torch.tensor([[math.cos(angle), math.sin(angle)], [0.6, -0.8]], dtype=torch.float64)
    loss = arc_con(anchors, positives, margin_degrees=30, temperature=1.0)
    first_own, first_other = 0.0, 0.6
    second_own, second_other = math.cos(math.acos(0.8) + math.radians(30)), -math.sin(angle)
    expected = [
        math.log(math.exp(own) + math.exp(other)) - own
        for own, other in ((first_own, first_other), (second_own, second_other))
    ]
    assert float(loss) == pytest.approx(sum(expected) / 2, rel=1e-12)


def test_equal_views_give_finite_gradients() -> None:
    rows = torch.randn(4, 8, requires_grad=True)
    arc_con(rows, rows, margin_degrees=10, temperature=0.05).backward()
    assert rows.grad is not None and bool(rows.grad.isfinite().all())


def test_small_angles_keep_their_value() -> None:
    """The clamp is no coarser than float64 needs: at 1e-3 radians the angle is exact."""
    angle = 1e-3
    anchors = torch.eye(2, dtype=torch.float64)
    positives = torch.tensor([[math.cos(angle), math.sin(angle)], [0.0, 1.0]], dtype=torch.float64)
    loss = arc_con(anchors, positives, margin_degrees=0, temperature=1.0)
    first = math.log(1 + math.exp(-math.cos(angle)))
    second = math.log(math.exp(1) + math.exp(math.sin(angle))) - 1
    assert float(loss) == pytest.approx((first + second) / 2, rel=1e-6)


def test_bounds() -> None:
    rows = torch.eye(2)
    with pytest.raises(ValueError, match=r"margin_degrees must be in \[0, 180\], got -1"):
        arc_con(rows, rows, margin_degrees=-1, temperature=0.05)
    with pytest.raises(ValueError, match="0 < light_rate < heavy_rate <= 1 must hold"):
        NestedSpans.of(5, light_rate=0.5, heavy_rate=0.4)
    with pytest.raises(ValueError, match="no span of 3 pieces at 3 in 5 pieces"):
        mask_span([1] * 5, 3, 3, mask=0)
