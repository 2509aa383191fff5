"""Losses, layers, edits and optimisers reproduce the stored reference values, in float64."""

import math
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from failing import failing
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from cse_methods.augmentation.learned_masks import fuse_masks, learn_masks, make_masks, move_scores
from cse_methods.augmentation.pieces import (
    changed_pieces,
    delete_pieces,
    insert_copies,
    list_heavy_starts,
    mask_span,
    measure_nested_spans,
)
from cse_methods.augmentation.registry import (
    AUGMENTATIONS,
    draw_indices,
    zero_elements,
    zero_features,
    zero_tokens,
)
from cse_methods.augmentation.replaced_pieces import mask_for_generator, replace_pieces
from cse_methods.config import TrainingConfig
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.edits import Edits, piece_positions
from cse_methods.encoders.encoder import pool
from cse_methods.encoders.flow import Flow
from cse_methods.encoders.post_pooling import BatchNormHead, TrainingHead
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.encoders.template import Template
from cse_methods.encoders.whitening import whiten
from cse_methods.encoders.word_pieces import cut_segments, most_repeats, repeat_pieces
from cse_methods.errors import TrainingError
from cse_methods.losses.arc_con import arc_con, masking_triplet
from cse_methods.losses.augmented_negatives import augmented_contrast
from cse_methods.losses.bidirectional_margin import bidirectional_margin
from cse_methods.losses.composition import Aggregation, aggregate
from cse_methods.losses.debiased import (
    debiased_loss,
    false_negative_weights,
    noise_ascent,
    noise_logits,
)
from cse_methods.losses.dimension_contrast import dimension_contrast
from cse_methods.losses.focal_info_nce import focal_info_nce
from cse_methods.losses.group_shuffling import group_ends, shuffle_by_rank
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.likelihood import bits_per_dimension, log_likelihood
from cse_methods.losses.list_mle import list_mle
from cse_methods.losses.list_net import list_net
from cse_methods.losses.masked_pieces import masked_piece_loss
from cse_methods.losses.mixed_negatives import mixed_negatives_loss
from cse_methods.losses.multi_positive import multi_positive
from cse_methods.losses.mutual_information import mutual_information
from cse_methods.losses.nt_xent import nt_xent
from cse_methods.losses.off_dropout import off_dropout_contrast
from cse_methods.losses.peer_contrast import peer_contrast
from cse_methods.losses.ranking_consistency import ranking_consistency
from cse_methods.losses.replaced_pieces import replace_first_embedding, replaced_piece_loss
from cse_methods.losses.reweighted_contrast import alignment_temperature, reweighted_contrast
from cse_methods.losses.segments import entailment, local_contrast, pool_segments
from cse_methods.losses.similarity import cosine_matrix, reduce, without_positive
from cse_methods.losses.spread_out import cosine_moments, spread_out
from cse_methods.losses.tension import build_pairs, contrastive_tension, in_batch_tension
from cse_methods.metrics import alignment, uniformity
from cse_methods.papers.arccse import ArcCSE, ArcCSEConfig
from cse_methods.papers.distillcse import weigh_teachers
from cse_methods.papers.mocose import Projection, prediction_head
from cse_methods.papers.multicsr import weigh_triples
from cse_methods.papers.promptbert import denoise, template_positions
from cse_methods.training.modifiers import take_prefix
from cse_methods.training.momentum import KeyQueue, ema_momentum, enqueue, moving_average_
from cse_methods.training.optimizers import (
    SMOOTHING,
    ParameterGroup,
    UncorrectedAdamW,
    grouped_parameters,
)
from cse_methods.training.schedule import piecewise_constant

Inputs = dict[str, Tensor]
Params = dict[str, Any]
Outputs = dict[str, Any]
Compute = Callable[..., Outputs]

CASES: list[tuple[str, Compute, frozenset[str]]] = []
"""Patterns of names, what gives the outputs of these cases, and those that it does not give."""
ELSEWHERE = {
    # Tests of metrics and of averaged word vectors read these.
    *("metrics_kcc_ndcg_a", "metrics_sts_all_a", "static_average_a"),
    # A perturbation below what float32 can hold.
    "mocose_fgsm_a",
}
LEFT_OUT = {
    # The public code clamps the logarithm of the mixture; the package has the paper's eq. 2.
    *("rankcse_consistency_code_a", "rankcse_consistency_code_b"),
    # ConSERT's adversary needs pairs with labels, and methods here have none.
    "consert_adversarial_a",
}
"""Cases of terms that the package does not have."""


def reproduces(
    *patterns: str, without: Iterable[str] = (), **variant: Any
) -> Callable[[Compute], Compute]:
    """Register what gives the outputs of the cases of some names."""

    def register(compute: Compute) -> Compute:
        given = partial(compute, **variant)
        CASES.extend((pattern, given, frozenset(without)) for pattern in patterns)
        return compute

    return register


def test_every_stored_case_is_reproduced(golden: Callable[[str], Any], shared: Path) -> None:
    """Cases of papers that are no method here yet, by the first word of their names, are left."""
    here = {pattern.partition("_")[0] for pattern, *_ in CASES}
    stored = {path.stem for path in (shared / "reference").glob("*.npz")}
    stored = {name for name in stored if name.partition("_")[0] in here}

    def check(name: str) -> None:
        ((compute, without),) = [rest for pattern, *rest in CASES if fnmatchcase(name, pattern)]
        golden(name).is_reproduced_by(compute, without=without)

    assert stored >= LEFT_OUT
    assert failing(check, stored - ELSEWHERE - LEFT_OUT) == {}
    unused = [p for p, *_ in CASES if not any(fnmatchcase(name, p) for name in stored)]
    assert unused == []


def apply_head(inputs: Inputs, rows: Tensor) -> Tensor:
    """The head that some cases have."""
    if "W" not in inputs:
        return rows
    weights = {"linear.weight": inputs["W"], "linear.bias": inputs["b"]}
    return functional_call(TrainingHead(rows.shape[-1]), weights, (rows,))


def batch_norm_weights(inputs: Inputs) -> Inputs:
    names = ("first.weight", "first_norm.weight", "first_norm.bias", "second.weight")
    return {name: inputs[k] for name, k in zip(names, ("W1", "gamma", "beta", "W2"), strict=True)}


def padded(rows: Sequence[Sequence[int]], width: int, filler: int = 0) -> list[list[int]]:
    return [([*row] + [filler] * width)[:width] for row in rows]


@reproduces("simcse_infonce_*", "esimcse_*_loss_?", "mocose_loss_a", without={"logits"})
def contrast(inputs: Inputs, params: Params) -> Outputs:
    views = inputs["z"].unbind(dim=1) if "z" in inputs else (inputs["query"], inputs["keys"])
    first, second, *hard = (apply_head(inputs, view) for view in views)
    how = {"temperature": params["temp"]}
    if hard:
        how |= {"negatives": hard[0], "hard_negative_weight": params["hard_negative_weight"]}
    queue = inputs["queue"].detach() if "queue" in inputs else None
    return {"loss": info_nce(first, second, queue=queue, **how)}


@reproduces("simcse_poolers_a", without={"cls"})
@reproduces("bertflow_avg_last2_code_a")
def poolers(inputs: Inputs, params: Params) -> Outputs:
    poolings = {
        "cls_before_pooler": Pooling("cls"),
        "avg": Pooling("avg"),
        "avg_top2": Pooling("avg_top2"),
        "avg_first_last": Pooling("avg_first_last"),
        "avg_first_last_embedding_layer": Pooling("avg_first_last", first_layer=0),
        # BERT-flow's code gives another mean than is meant.
        "released": Pooling("avg_first_last", first_layer=1),
        "intended": Pooling("avg_top2"),
    }
    states, mask = list(inputs["hidden_states"]), inputs["attention_mask"]
    return {name: pool(states, mask, pooling) for name, pooling in poolings.items()}


@reproduces("metrics_align_uniform_a")
def geometry(inputs: Inputs, params: Params) -> Outputs:
    x, y = inputs["x"], inputs["y"]
    whole = uniformity(torch.cat([x, y]))
    return {"align": alignment(x, y), "uniform_x": uniformity(x), "uniform_xy": whole}


@reproduces("rankcse_listnet_code_?")
def released_list_net(inputs: Inputs, params: Params) -> Outputs:
    one = {"student_temperature": 1, "teacher_temperature": 1}
    return {"loss": params["gamma"] * list_net(inputs["student"], inputs["teacher"], **one)}


@reproduces("rankcse_listmle_code_?")
def released_list_mle(inputs: Inputs, params: Params) -> Outputs:
    student, teacher, gamma = inputs["student"], inputs["teacher"], params["gamma"]
    rank = list_mle(student, teacher, temperature=1, eps=params["eps"])
    exact = list_mle(student.detach(), teacher, temperature=1)
    return {"loss": gamma * rank, "exact_eq5_mean": gamma * exact}


@reproduces("rankcse_oracle_js_a")
def jensen_shannon(inputs: Inputs, params: Params) -> Outputs:
    of = partial(ranking_consistency, inputs["s12"], inputs["s21"], temperature=1)
    return {"loss": of(), "sum": of(reduction="sum")}


def rankcse_terms(contrastive: Tensor, consistency: Tensor, rank: Tensor) -> Outputs:
    loss = contrastive + consistency + rank
    return {"loss": loss, "infonce": contrastive, "consistency": consistency, "rank": rank}


def student_and_teacher(inputs: Inputs, params: Params) -> tuple[Tensor, Tensor]:
    first, second = (cosine_matrix(inputs[name], inputs[name]) for name in ("t1", "t2"))
    teacher = params["alpha"] * first + (1 - params["alpha"]) * second
    return cosine_matrix(*inputs["z"].unbind(dim=1)), teacher


@reproduces("rankcse_full_code_listnet_a", by="listnet", without={"loss", "consistency"})
@reproduces("rankcse_full_code_listmle_a", by="listmle", without={"loss", "consistency"})
def released_rankcse(inputs: Inputs, params: Params, by: str) -> Outputs:
    """The terms but for the public code's own form of consistency, which is left out."""
    (student, teacher), tau = student_and_teacher(inputs, params), params["temp"]
    if by == "listnet":
        taus = {"student_temperature": tau, "teacher_temperature": params["tau2"]}
        rank = list_net(student, teacher, **taus)
    else:
        rank = list_mle(student, teacher, temperature=tau, eps=1e-7)
    return {"infonce": info_nce(*inputs["z"].unbind(dim=1), temperature=tau), "rank": rank}


@reproduces("rankcse_oracle_full_*")
def published_rankcse(inputs: Inputs, params: Params) -> Outputs:
    student, teacher = student_and_teacher(inputs, params)
    tau1, tau2, how = params["tau1"], params["tau2"], params["reduction"]
    rest = {"exclude_positive": params["exclude_positive"], "reduction": how}
    if params["rank"] == "listnet":
        taus = {"student_temperature": tau2, "teacher_temperature": params["tau3"]}
        rank = list_net(student, teacher, **taus, **rest)
    else:
        rank = list_mle(student, teacher, temperature=tau2, **rest)
    return rankcse_terms(
        info_nce(*inputs["z"].unbind(dim=1), temperature=tau1, reduction=how),
        params["beta"] * ranking_consistency(student, temperature=tau1, reduction=how),
        params["gamma"] * rank,
    )


@reproduces("arccse_arccon_a", "arccse_triplet_a", "arccse_full_a", without={"logits", "delta"})
def arccse(inputs: Inputs, params: Params) -> Outputs:
    margin: Any = 0
    triplet: Any = 0
    if "z" in inputs:
        how = {"margin_degrees": params["margin_degrees"], "temperature": params["temp"]}
        margin = arc_con(*inputs["z"].unbind(dim=1), **how)
    if "h" in inputs:
        triplet = masking_triplet(*inputs["h"].unbind(dim=1), margin=params["tri_margin"])
    loss = margin + params.get("lam", 1) * triplet
    return {"loss": loss, "arccon": margin, "triplet": triplet}


@reproduces("arccse_spans_a")
def arccse_spans(inputs: Inputs, params: Params) -> Outputs:
    lengths = inputs["lengths"].tolist()
    spans = [measure_nested_spans(pieces, **params) for pieces in lengths]
    sizes = {"light": [light for light, _ in spans], "heavy": [heavy for _, heavy in spans]}
    starts = inputs["light_start"].tolist()
    places = [list_heavy_starts(*each) for each in zip(starts, lengths, spans, strict=True)]
    found: Outputs = {
        f"heavy_{end}": [p[i] for p in places] for end, i in (("low", 0), ("high", -1))
    }
    for name, of in sizes.items():
        rows = zip(lengths, inputs[f"{name}_start"].tolist(), of, strict=True)
        masks = [mask_span([0] * pieces, start, size, mask=1) for pieces, start, size in rows]
        found |= {f"{name}_length": of, f"{name}_mask": padded(masks, max(lengths), -1)}
    return found


@given(pieces=st.integers(1, 60), light=st.floats(0.05, 0.5), more=st.floats(0.05, 0.5))
def test_arccse_heavy_spans_contain_light_ones(pieces: int, light: float, more: float) -> None:
    lengths = measure_nested_spans(pieces, light_rate=light, heavy_rate=light + more)
    assert 1 <= lengths[0] <= lengths[1] <= pieces
    for start in range(pieces - lengths[0] + 1):
        starts = list_heavy_starts(start, pieces, lengths)
        assert starts
        for around in starts:
            assert around <= start
            assert start + lengths[0] <= around + lengths[1] <= pieces


def test_arccse_masks_long_sentences_alone_and_reads_them_without_dropout() -> None:
    read: list[tuple[list[list[int]], Any]] = []

    def encode(rows: list[list[int]], _: Any, *, edits: Any) -> tuple[Tensor]:
        read.append((rows, edits))
        return (torch.eye(len(rows)),)

    encoder = SimpleNamespace(template=list, tokenizer=SimpleNamespace(mask_token_id=0))
    student: Any = SimpleNamespace(encoder=encoder, encode=encode)
    views: Any = SimpleNamespace(contents=[[7] * 4, [7] * 5, [7] * 10])
    settings = {"backbone": "mini", "corpus": "builtin", "triplet_min_length": 5}
    objective = ArcCSE(ArcCSEConfig.model_validate(settings))
    objective.losses(torch.eye(3), torch.eye(3), views=views, student=student, batch=views)
    ((rows, edits),) = read
    assert [row.count(0) for row in rows] == [0, 0, 1, 2, 2, 4]
    for light, heavy in zip(rows[2:4], rows[4:], strict=True):
        assert not any(more for own, more in zip(light, heavy, strict=True) if not own)
    assert not edits.dropout


def test_arccse_small_angles_keep_their_value_and_equal_views_finite_gradients() -> None:
    """The clamp is no coarser than float64 needs: at 1e-3 radians the angle is exact."""
    angle = 1e-3
    anchors = torch.eye(2, dtype=torch.float64)
    positives = torch.tensor([[math.cos(angle), math.sin(angle)], [0.0, 1.0]], dtype=torch.float64)
    loss = arc_con(anchors, positives, margin_degrees=0, temperature=1.0)
    first = math.log(1 + math.exp(-math.cos(angle)))
    second = math.log(math.exp(1) + math.exp(math.sin(angle))) - 1
    assert float(loss) == pytest.approx((first + second) / 2, rel=1e-6)
    rows = torch.randn(4, 8, requires_grad=True)
    arc_con(rows, rows, margin_degrees=10, temperature=0.05).backward()
    assert rows.grad is not None and bool(rows.grad.isfinite().all())


def flow_parameter_name(stored: str) -> str:
    """Of a parameter `l<level>s<step>_<part>_<what>`."""
    place, part, what = stored.split("_")
    level, step = place.removeprefix("l").split("s")
    kind = {"b": "shift", "logs": "log_scale", "W": ""}[what]
    if part == "an":
        return f"levels.{level}.{step}.norm.{kind}"
    layer = int(part.removeprefix("c")) - 1
    within = f"norms.{layer}.{kind}" if kind else f"weights.{layer}"
    return f"levels.{level}.{step}.coupling.{within}"


def flow_and_weights(inputs: Inputs, params: Params, *, width: int = 16) -> tuple[Flow, Inputs]:
    layout = params.get("layout") or params["layout_weights"]
    parts = inputs["weights"].split([math.prod(shape) for _, shape in layout])
    weights = {
        flow_parameter_name(name): part.view(shape)
        for (name, shape), part in zip(layout, parts, strict=True)
    }
    return Flow(width, params["levels"], params["depth"], params["width"]).double(), weights


@reproduces("bertflow_flow_a")
def bertflow_flow(inputs: Inputs, params: Params) -> Outputs:
    flow, weights = flow_and_weights(inputs, params)
    assert weights.keys() == dict(flow.named_parameters()).keys()
    volumes: list[Tensor] = []
    flow.register_forward_hook(lambda flow, *_: volumes.append(flow.log_determinant()))
    mapped = functional_call(flow, weights, (inputs["x"],))
    likelihood = log_likelihood(mapped, volumes[0])
    bits = bits_per_dimension(likelihood, width=mapped.shape[1])
    return {
        **{"loss": bits.mean(), "z": mapped, "log_likelihood": likelihood},
        **{"log_det": volumes[0], "nll": bits},
    }


@reproduces("bertflow_inverse_a")
def bertflow_inverse(inputs: Inputs, params: Params) -> Outputs:
    flow, weights = flow_and_weights(inputs, params)
    flow.load_state_dict(weights)
    found = flow.inverse(inputs["z"])
    torch.testing.assert_close(flow(found), inputs["z"], rtol=1e-9, atol=1e-12)
    return {"x": found}


@reproduces("bertflow_init_a")
def bertflow_start(inputs: Inputs, params: Params) -> Outputs:
    flow, weights = flow_and_weights(inputs, params)
    flow.load_state_dict(weights, strict=False)
    with torch.no_grad():
        mapped, state = flow(inputs["x"], start=True), flow.state_dict()
    started = [state[flow_parameter_name(name)].flatten() for name, _ in params["layout_started"]]
    return {"z": mapped, "started": torch.cat(started)}


AGGREGATIONS: dict[str, Aggregation] = {
    "sum": "sum",
    "avg": "average",
    "cat_first_last": "concat-halves",
    "concat_project": "concat-project",
    "concat_absdiff_project": "concat-absdiff-project",
}


def compcse_views(inputs: Inputs, params: Params) -> tuple[Tensor, Tensor]:
    """The anchors and their composed positives, after the head."""
    if "z" in inputs:
        return inputs["z"][:, 0], inputs["z"][:, 1]
    how = AGGREGATIONS[params["compose_fn"]]
    compose = partial(aggregate, aggregation=how, projection=inputs.get("P"))
    anchors, *parts = inputs["r"].unbind(dim=1)
    # `order` says where aggregation stands; the released code aggregates before the head.
    if params.get("order") == "after_mlp":
        return apply_head(inputs, anchors), compose([apply_head(inputs, part) for part in parts])
    return apply_head(inputs, anchors), apply_head(inputs, compose(parts))


@reproduces("compcse_*", without={"logits"})
def compcse(inputs: Inputs, params: Params) -> Outputs:
    anchors, positives = (view[:, : params["d0"]] for view in compcse_views(inputs, params))
    return {"loss": info_nce(anchors, positives, temperature=params["temp"])}


def test_every_aggregation_has_a_golden_case() -> None:
    assert set(AGGREGATIONS.values()) == set(get_args(Aggregation))


@reproduces("consert_ntxent_a")
def consert_contrast(inputs: Inputs, params: Params) -> Outputs:
    assert params["normalize"]
    forth, back = nt_xent(*inputs["z"].unbind(dim=1), temperature=params["temp"])
    return {"loss": forth + back, "loss_a": forth, "loss_b": back}


@reproduces("consert_*_cutoff_a")
def consert_cutoff(inputs: Inputs, params: Params) -> Outputs:
    embeddings, real = inputs["embeddings"], inputs["attention_mask"].bool()
    # What each sentence can lose: its tokens, all features, or the elements of its tokens.
    zero, available = {
        "row": (zero_tokens, real),
        "column": (zero_features, torch.ones_like(embeddings[:, 0], dtype=torch.bool)),
        "random": (zero_elements, real.unsqueeze(-1).expand_as(embeddings).flatten(1)),
    }[params["direction"]]
    left = zero(embeddings, inputs["cut"])
    drawn = (draw_indices(available, rate=params["rate"]) >= 0).sum(dim=1)
    assert torch.equal(drawn, (inputs["cut"] >= 0).sum(dim=1))
    loss = (left * inputs["upstream"].detach()).sum()
    return {"loss": loss, "embeddings": left, "num_cut": drawn}


@reproduces("consert_shuffle_a")
def consert_shuffle(inputs: Inputs, params: Params) -> Outputs:
    mask = inputs["attention_mask"]
    pieces = mask.flatten().nonzero().squeeze(1)
    edits = Edits(positions=[order[order >= 0].tolist() for order in inputs["order"]])
    positions = torch.arange(mask.shape[1]).repeat(len(mask))
    read = {"attention_mask": mask, "pieces": pieces}
    positions[pieces] = piece_positions(read, edits, lowest=0, limit=mask.shape[1])
    positions = positions.view_as(mask)
    return {"position_ids": positions, "position_ids_offset": params["first_position"] + positions}


@reproduces("ct_bce_a", "ct_bce_sum_a", without={"logits"})
def tension(inputs: Inputs, params: Params) -> Outputs:
    labels = inputs["labels"]
    losses = contrastive_tension(inputs["a"], inputs["b"], labels)
    positive, negative = (losses[labels == label].sum() for label in (1, 0))
    loss = reduce(losses, params["reduction"])
    return {"loss": loss, "positive": positive, "negative": negative}


@reproduces("ct_inbatch_a")
def tension_in_batch(inputs: Inputs, params: Params) -> Outputs:
    terms = in_batch_tension(inputs["a"], inputs["b"], log_scale=inputs["logit_scale"])
    return {"loss": sum(terms)}


@reproduces("ct_pairs_a")
def tension_pairs(inputs: Inputs, params: Params) -> Outputs:
    positives, negatives = inputs["positives"].tolist(), inputs["negatives"].tolist()
    count = params["negatives"]
    first, second = build_pairs(positives, negatives, per_positive=count, anchored=False)
    used = negatives[: len(positives) * count]
    own = build_pairs(positives, used, per_positive=count, anchored=True)
    labels = [int(number % (count + 1) == 0) for number in range(len(first))]
    anchored = {"first_anchored": own[0], "second_anchored": own[1]}
    return {"first": first, "second": second, "labels": labels, **anchored}


def dclr_moved(inputs: Inputs, params: Params, steps: int) -> Tensor:
    rest = {"temperature": params["temp"], "steps": steps, "step_size": params["step_size"]}
    return noise_ascent(*inputs["z"].unbind(dim=1), inputs["noise0"], **rest)


def dclr_terms(inputs: Inputs, params: Params, noise: Tensor, *, form: Any) -> Outputs:
    logits = noise_logits(*inputs["z"].unbind(dim=1), noise, temperature=params["temp"])
    frozen = inputs["frozen"].unbind(dim=1)
    weights = false_negative_weights(*frozen, phi=params["phi"], noise=len(noise))
    loss = debiased_loss(logits, weights, form=form)
    return {"loss": loss, "noise": noise, "logits": logits, "weights": weights}


@reproduces("dclr_loss_a")
def dclr(inputs: Inputs, params: Params) -> Outputs:
    noise = dclr_moved(inputs, params, params["steps"])
    return dclr_terms(inputs, params, noise, form="bce")


@reproduces("dclr_oracle_infonce_a")
def dclr_weighted_info_nce(inputs: Inputs, params: Params) -> Outputs:
    return dclr_terms(inputs, params, inputs["noise"].detach(), form="infonce")


@reproduces("dclr_noise_ascent_a")
def dclr_ascent(inputs: Inputs, params: Params) -> Outputs:
    after = [dclr_moved(inputs, params, 1 + steps) for steps in range(params["steps"])]
    return {"noise": torch.stack(after)}


@reproduces("diffcse_loss_a", over="all")
@reproduces("diffcse_oracle_realtokens_a", over="real")
def diffcse(inputs: Inputs, params: Params, over: Any) -> Outputs:
    judged = (inputs[name] for name in ("rtd_logits", "labels", "attention_mask"))
    detection = replaced_piece_loss(*judged, over=over)
    contrastive = info_nce(*inputs["z"].unbind(dim=1), temperature=params["temp"])
    loss = contrastive + params["lam"] * detection
    return {"loss": loss, "infonce": contrastive, "rtd": detection}


@reproduces("diffcse_conditional_a")
def diffcse_conditional(inputs: Inputs, params: Params) -> Outputs:
    mask, views = inputs["attention_mask"], apply_head(inputs, inputs["h"])
    edited, labels = replace_pieces(inputs["input_ids"], mask, inputs["generator_argmax"])
    assert edited[:, 0].eq(params["cls_token"]).all()
    read = replace_first_embedding(inputs["E"][edited], views.flatten(0, 1))
    weights = mask[..., None].to(read)
    mean = (read * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True)
    judged = (read + mean @ inputs["U"].T).tanh() @ inputs["C"].T + inputs["c"]
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    return {"loss": contrastive + params["lam"] * replaced_piece_loss(judged, labels, mask)}


@reproduces("diffcse_projection_a")
def diffcse_projection(inputs: Inputs, params: Params) -> Outputs:
    head = BatchNormHead(inputs["x"].shape[1]).double()
    norms = {1: head.first_norm, 2: head.second_norm}
    for number, norm in norms.items():
        assert (norm.eps, norm.momentum) == (params["eps"], params["momentum"])
        norm.running_mean = inputs[f"running_mean{number}"].detach().clone()
        norm.running_var = inputs[f"running_var{number}"].detach().clone()
    weights = batch_norm_weights(inputs)
    projected = functional_call(head, weights, (inputs["x"],))
    found = {"loss": (projected * inputs["upstream"].detach()).sum(), "y": projected}
    for number, norm in norms.items():
        found[f"running_mean{number}"] = norm.running_mean
        found[f"running_var{number}"] = norm.running_var
    head.eval()
    return found | {"y_eval": functional_call(head, weights, (inputs["x"],))}


@reproduces("diffcse_generator_masking_a")
def diffcse_masks_for_the_generator(inputs: Inputs, params: Params) -> Outputs:
    rate, mask = params["masking_ratio"], params["mask_token"]
    return {"mlm_input_ids": mask_for_generator(*inputs.values(), rate=rate, mask=mask)}


@reproduces("diffcse_replaced_tokens_a")
def diffcse_replaced_pieces(inputs: Inputs, params: Params) -> Outputs:
    edited, labels = replace_pieces(*inputs.values())
    return {"edited_ids": edited, "labels": labels}


def queue_by_step(used: list[Tensor], final: Tensor) -> Outputs:
    """What the queue held before each step and at the end, of rows with one number each."""
    steps = {f"queue_used_at_step{step}": rows[:, 0] for step, rows in enumerate(used)}
    return {**steps, "queue_final": final[:, 0]}


def numbered_batches(inputs: Inputs) -> Sequence[Tensor]:
    """Batches whose rows are numbered through."""
    sizes = inputs["batch_sizes"].tolist()
    return torch.arange(float(sum(sizes))).unsqueeze(1).split(sizes)


@reproduces("esimcse_queue_update_a")
def esimcse_queue(inputs: Inputs, params: Params) -> Outputs:
    queue, used = torch.empty(0, 1), []
    for rows in numbered_batches(inputs):
        used.append(queue)
        queue = enqueue(queue, rows, size=params["neg_size"])
    return queue_by_step(used, queue)


@reproduces("mocose_queue_a")
def mocose_queue(inputs: Inputs, params: Params) -> Outputs:
    size, start = params["queue_size"], params["initial_size"]
    # Random rows are numbered from -1 down, keys from 0 up.
    queue, used = KeyQueue(-torch.arange(1.0, size + 1).unsqueeze(1), size, start, start), []
    for keys in numbered_batches(inputs):
        used.append(queue.negatives())
        queue.add(keys)
    return queue_by_step(used, queue.rows)


@reproduces("esimcse_momentum_update_a", "mocose_ema_a")
def momentum_by_step(inputs: Inputs, params: Params) -> Outputs:
    follows, leads = (nn.Linear(4, 3, bias=False).double() for _ in range(2))
    follows.weight.data = inputs["param_m0"].clone()
    steps, momenta = [], []
    for step, value in enumerate(inputs["params"], start=1):
        leads.weight.data = value
        momenta.append(params.get("momentum") or ema_momentum(step, **params))
        moving_average_(follows, leads, momentum=momenta[-1])
        steps.append(follows.weight.detach().clone())
    return {"param_m": torch.stack(steps), "momentum": momenta}


def test_mocose_momentum_ends_at_one() -> None:
    assert ema_momentum(10, decay=0.5, total_steps=10) == 1
    assert ema_momentum(11, decay=0.5, total_steps=10) == 1
    assert ema_momentum(5, decay=0.5, total_steps=10) == pytest.approx(0.75)


@reproduces("esimcse_bpe_repetition_a")
def esimcse_repetition(inputs: Inputs, params: Params) -> Outputs:
    rate, repeated, counts, lengths = params["dup_rate"], [], [], inputs["lengths"].tolist()
    for row, length in enumerate(lengths):
        first, *content, last = inputs["ids"][row, :length].tolist()
        # Stored positions count [CLS]; zeros fill the row up, and -1 ends it.
        positions = [p - 1 for p in inputs["dup_positions"][row].tolist() if p > 0]
        repeated.append([first, *repeat_pieces(content, positions), last])
        counts.append(len(positions))
    return {
        "ids": padded(repeated, max(map(len, repeated))),
        **{"lengths": [len(pieces) for pieces in repeated], "num_added": counts},
        "max_possible_add": [most_repeats(n, rate=rate, bounds="released") for n in lengths],
    }


@reproduces("mocose_heads_a")
def mocose_heads(inputs: Inputs, params: Params) -> Outputs:
    branch = nn.Sequential(nn.Linear(8, 8), Projection(8, 0.0), prediction_head(8, 2, 0.0))
    keys: list[Tensor] = []
    branch[1].register_forward_hook(lambda _, before, after: keys.append(after))
    stored = ("Wp", "bp", "W1", "b1", "g1", "c1", "W2", "b2", "g2", "c2", "W3", "b3")
    names = dict(zip((name for name, _ in branch.named_parameters()), stored, strict=True))
    weights = {name: inputs[key] for name, key in names.items()}
    query = functional_call(branch, weights, (inputs["h"],))
    return {"loss": (query * inputs["upstream"].detach()).sum(), "key": keys[0], "query": query}


@reproduces("mocose_cutoff_a")
def mocose_cutoff(inputs: Inputs, params: Params) -> Outputs:
    return {
        "token_cutoff": zero_tokens(inputs["embeddings"], inputs["tokens"]),
        "feature_cutoff": zero_features(inputs["embeddings"], inputs["features"]),
    }


@reproduces("focal_*", without={"logits"})
def focal(inputs: Inputs, params: Params) -> Outputs:
    how = {"temperature": params["temp"], "hardness": params["m"]}
    return {"loss": focal_info_nce(*inputs["z"].unbind(dim=1), **how)}


@reproduces("gor_terms_?", "gor_infonce_?")
def spread_out_terms(inputs: Inputs, params: Params) -> Outputs:
    views = inputs["z"].unbind(dim=1)
    terms = spread_out(*views, aggregation=params["aggregation"])
    found = {
        name: params[f"{name}_weight"] * term
        for name, term in zip(("mean", "second"), terms, strict=True)
    }
    if "scale" in params:
        found["infonce"] = info_nce(*views, temperature=1 / params["scale"])
    return {"loss": torch.stack([*found.values()]).sum(), **found}


@reproduces("gor_oracle_gemma_?")
def spread_out_as_embedding_gemma_has_it(inputs: Inputs, params: Params) -> Outputs:
    """Of our terms only the second moments, without their bound."""
    _, seconds = zip(*map(cosine_moments, inputs["z"].unbind(dim=1)), strict=True)
    return {"loss": params["weight"] * torch.stack(seconds).sum()}


@reproduces("hicl_oracle_*", without={"local_seq_mean"})
def hicl(inputs: Inputs, params: Params) -> Outputs:
    """Their mean over sequences of the means within is not ours, which is over all segments."""
    views, sequence = (inputs["h"], inputs["h_plus"]), inputs["seq_id"]
    weights = inputs["seg_len"] if params["pooling"] == "weighted" else None
    pooled, pooled_second = (pool_segments(h, sequence, weights) for h in views)
    how = {"temperature": params["temp"], "negatives_from": params["negatives_from"]}
    within, negatives = params["same_sequence"], params["contrast"]
    local = local_contrast(*views, sequence, same_sequence=within, negatives=negatives, **how)
    whole = info_nce(pooled, pooled_second, **how)
    entailed = entailment(views[0], pooled, sequence, temperature=params["temp"])
    alpha, beta = params["alpha"], params["beta"]
    return {
        "loss": alpha * local + beta * entailed + (1 - alpha - beta) * whole,
        **{"local_sum": local * len(sequence), "local_mean": local},
        **{"global_mean": whole, "entail_mean": entailed, "pooled": pooled},
    }


@reproduces("hicl_slicing_a")
def hicl_slicing(inputs: Inputs, params: Params) -> Outputs:
    contents = [range(length) for length in inputs["lengths"].tolist()]
    cut = [cut_segments(content, params["slice_len"]) for content in contents]
    assert [[*chain(*segments)] for segments in cut] == [[*content] for content in contents]
    sizes = [[len(segment) for segment in segments] for segments in cut]
    counts = [len(segments) for segments in cut]
    return {"num_segments": counts, "segment_lengths": padded(sizes, max(counts))}


@reproduces("infocse_full_a")
def infocse(inputs: Inputs, params: Params) -> Outputs:
    """Rows of both views one after another, as the code has them; here without further layers."""
    told, read = inputs["cls"].flatten(0, 1), inputs["skip"].detach().flatten(0, 1)
    head = BatchNormHead(told.shape[1]).double()
    views = functional_call(head, batch_norm_weights(inputs), (told,)).unflatten(0, (-1, 2))
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    logits = replace_first_embedding(read, told) @ inputs["V"].T + inputs["c"]
    guesses = masked_piece_loss(logits, inputs["mlm_labels"].flatten(0, 1))
    loss = contrastive + params["mlm_weight"] * guesses
    return {"loss": loss, "contrast": contrastive, "mlm": guesses}


def information(tokens: Tensor, mask: Tensor, sentences: Tensor) -> Outputs:
    positive, negative = mutual_information(tokens, mask, sentences)
    return {"loss": negative - positive, "e_pos": positive, "e_neg": negative}


@reproduces("isbert_jsd_a")
def isbert(inputs: Inputs, params: Params) -> Outputs:
    tokens = inputs["tokens"]
    mask = torch.arange(tokens.shape[1]) < inputs["lengths"].unsqueeze(1)
    return information(tokens, mask, inputs["global"])


@reproduces("isbert_full_code_a", "isbert_oracle_relu_masked_a")
def isbert_step(inputs: Inputs, params: Params) -> Outputs:
    """From the vectors of word pieces to the loss."""
    sizes, vectors, mask = params["kernel_sizes"], inputs["x"], inputs["attention_mask"]
    switches = {"relu": params["relu"], "mask_padding": params["zero_padding_vectors"]}
    layer = TokenConvolution(vectors.shape[2], params["channels"], sizes, **switches)
    weights = {f"convs.{place}.weight": inputs[f"W{size}"] for place, size in enumerate(sizes)}
    biases = {f"convs.{place}.bias": inputs[f"b{size}"] for place, size in enumerate(sizes)}
    tokens = functional_call(layer, weights | biases, (vectors, mask))
    real = mask.unsqueeze(-1)
    sentences = (tokens * real).sum(dim=1) / real.sum(dim=1)
    return information(tokens, mask, sentences) | {"global": sentences}


@reproduces("l2pcsr_perturbed_loss_a")
def l2pcsr(inputs: Inputs, params: Params) -> Outputs:
    """The loss of a toy encoder, whose views of a sentence are adjacent rows."""

    def views_of(masks: Tensor) -> tuple[Tensor, Tensor]:
        hidden = inputs["E"] * masks[0]
        for number, weight in enumerate(inputs["U"], 1):
            hidden = (hidden @ weight.T + hidden.mean(dim=1, keepdim=True)).tanh()
            if number <= params["masked_layers"]:
                hidden = hidden * masks[number]
        z = apply_head(inputs, hidden[:, 0])
        return z[0::2], z[1::2]

    def loss_of(masks: Tensor) -> Tensor:
        return info_nce(*views_of(masks), temperature=params["temp"])

    noises = inputs["noise"], inputs["feature_noise"]
    how = {name: params[name] for name in ("steps", "step_size", "threshold")}
    scores = learn_masks(loss_of, *noises, **how)
    masks = fuse_masks(tuple(make_masks(each, threshold=params["threshold"]) for each in scores))
    assert all(inputs[name].grad is None for name in "EUWb")  # the steps leave them clean
    return {
        **{"loss": loss_of(masks), "z": torch.stack(views_of(masks), dim=1), "masks": masks},
        **{"noise": scores[0], "feature_noise": scores[1]},
    }


@reproduces("l2pcsr_update_a")
def l2pcsr_update(inputs: Inputs, params: Params) -> Outputs:
    moved = move_scores(inputs["x"], inputs["gradient"], step_size=params["step_size"])
    return {"x": moved, "mask": make_masks(moved, threshold=params["threshold"])}


@reproduces("macl_lists_?", given=True)
@reproduces("macl_loss_?", "macl_oracle_saturated_?")
def macl(inputs: Inputs, params: Params, *, given: bool = False) -> Outputs:
    if given:
        positives, negatives = inputs["pos"].squeeze(1), inputs["neg"]
    else:
        cosines = cosine_matrix(*inputs["z"].unbind(dim=1))
        positives, negatives = cosines.diagonal(), without_positive(cosines)
    follows = {"alpha": params["alpha"], "a0": params["a0"]}
    tau = alignment_temperature(positives, temperature=params["temp"], **follows)
    return {"loss": reweighted_contrast(positives, negatives, temperature=tau), "tau": tau}


@reproduces("macl_first_version_code_?")
def macl_first_version(inputs: Inputs, params: Params) -> Outputs:
    """Of its two temperatures, one is today's with a0 = 0, and the package lacks the other."""
    cosines = cosine_matrix(*inputs["z"].unbind(dim=1))
    positives, negatives = cosines.diagonal(), without_positive(cosines)
    temperature = params["temp"]
    tau = alignment_temperature(positives, temperature=temperature, alpha=params["beta"], a0=0)
    power = temperature * params["alpha"] ** positives.detach().mean()
    return {
        "loss": reweighted_contrast(positives, negatives, temperature=tau),
        "power": reweighted_contrast(positives, negatives, temperature=power),
    }


@reproduces("matryoshka_infonce_?", "matryoshka_cosent_?")
def matryoshka(inputs: Inputs, params: Params) -> Outputs:
    """Prefixes and their sum; CoSENT, which the package has by sentence-transformers, is here."""

    def loss_of(width: int) -> Tensor:
        if "z" in inputs:
            first, second, *third = (take_prefix(v, width) for v in inputs["z"].unbind(dim=1))
            negatives = third[0] if third else None
            return info_nce(first, second, temperature=1 / params["scale"], negatives=negatives)
        pairs = cosine_matrix(*(take_prefix(inputs[name], width) for name in "ab")).diagonal()
        below = inputs["labels"][:, None] < inputs["labels"]  # of which pair i has the lower label
        differences = params["scale"] * (pairs[:, None] - pairs)[below]
        return torch.logsumexp(F.pad(differences, (1, 0)), dim=0)

    parts = torch.stack([loss_of(width) for width in params["dims"]])
    weights = torch.tensor(params["weights"], dtype=parts.dtype)
    return {"loss": (weights * parts).sum(), "parts": parts}


@reproduces("mixcse_loss_a", without={"logits"})
@reproduces("mixcse_oracle_anchor_only_a", mixed_sides="positive")
@reproduces("mixcse_oracle_removed_a", suppressed="remove")
def mixcse(inputs: Inputs, params: Params, **variant: Any) -> Outputs:
    how = {"mix_weight": params["lam"], "temperature": params["temp"]}
    weight, views = params["hard_negative_weight"], inputs["z"].unbind(dim=1)
    return {"loss": mixed_negatives_loss(*views, hard_negative_weight=weight, **how, **variant)}


@reproduces("pcl_loss_a", "pcl_switches_a", "pcl_shared_head_a")
def pcl(inputs: Inputs, params: Params) -> Outputs:
    views, peer = (apply_head(inputs, inputs[name]) for name in ("z", "peer"))
    cooperating = peer if params["peer_cooperation"] else None
    found = peer_contrast(views, cooperating, temperature=params["temp"])
    assert params["positive_contrast"]
    assert not params["fixed_peer"]
    return {"loss": torch.stack([*found.values()]).sum(), **found}


@reproduces("pcl_augmentations_a", without={"sf_ids", "sf_lengths"})
def pcl_augmentations(inputs: Inputs, params: Params) -> Outputs:
    """All but the shuffled pieces, whose order the package draws itself."""
    changed: dict[str, list[list[int]]] = {"rv": [], "de": [], "rp": []}
    reverse: Any = AUGMENTATIONS["reverse"].pieces
    for row, length in enumerate(inputs["lengths"].tolist()):
        first, *content, last = inputs["input_ids"][row, :length].tolist()
        drawn = {
            name: [n for n in rows[row].tolist() if n >= 0]
            for name, rows in inputs.items()
            if rows.dim() > 1
        }
        count = changed_pieces(len(content), params["rate"])
        copies = max(0, min(count, params["max_length"] - length))
        assert len(drawn["delete_choice"]) == count
        assert len(drawn["repeat_choice"]) == copies
        for kind, pieces in {
            "rv": reverse(content, 0, None),
            "de": delete_pieces(content, drawn["delete_choice"]),
            "rp": insert_copies(content, drawn["repeat_choice"], drawn["repeat_position"]),
        }.items():
            changed[kind].append([first, *pieces, last])
    ids = {f"{kind}_ids": padded(rows, max(map(len, rows))) for kind, rows in changed.items()}
    return ids | {f"{kind}_lengths": [*map(len, rows)] for kind, rows in changed.items()}


@reproduces("promptbert_loss_a", "promptbert_switches_a")
def promptbert(inputs: Inputs, params: Params) -> Outputs:
    views = list(inputs["h"].unbind(dim=1))
    if params.get("denoise", True):
        bare = [inputs["template1"], inputs.get("template2", inputs["template1"])]
        if params.get("freeze_template"):
            bare = [vectors.detach() for vectors in bare]
        lengths = inputs["lengths"].unbind(dim=1)
        views = [denoise(*one) for one in zip(views, bare, lengths, strict=True)]
    first, second = (apply_head(inputs, view) for view in views)
    loss = info_nce(first, second, temperature=params["temp"])
    return {"loss": loss, "logits": cosine_matrix(first, second) / params["temp"]}


@reproduces("promptbert_positions_a")
def promptbert_positions(inputs: Inputs, params: Params) -> Outputs:
    ids, prefix = inputs["template_ids"].tolist(), 1 + params["prefix_pieces"]
    template = Template(tuple(ids[:prefix]), tuple(ids[prefix:]))
    lengths = [k if params["shift_positions"] else 0 for k in range(params["lengths"])]
    return {"position_ids": [template_positions(template, k) for k in lengths]}


@reproduces("promptbert_wrap_a")
def promptbert_wrap(inputs: Inputs, params: Params) -> Outputs:
    pad = params["pad_token"]
    before, after = inputs["prefix"].tolist(), inputs["suffix"].tolist()
    rows = [[piece for piece in row if piece != pad] for row in inputs["input_ids"].tolist()]
    template = Template((rows[0][0], *before), (*after, rows[0][-1]))
    contents = [row[1:-1] for row in rows]
    wide = inputs["input_ids"].shape[1] + len(before) + len(after)
    prompted = [template(content) for content in contents]
    vectors = inputs["h"]
    if params["denoise"]:
        vectors = denoise(vectors, inputs["template"], [len(content) for content in contents])
    return {"prompted_ids": padded(prompted, wide, pad), "embedding": vectors}


def test_promptbert_frozen_template_gets_no_gradient(golden: Callable[[str], Any]) -> None:
    case = golden("promptbert_loss_a")
    promptbert(case.inputs, case.params | {"freeze_template": True})["loss"].backward()
    assert case.inputs["template1"].grad is None
    assert case.inputs["h"].grad is not None


@reproduces("simcsepp_*", without={"released"})
def simcsepp(inputs: Inputs, params: Params) -> Outputs:
    views, found = inputs["z"].unbind(dim=1), dict[str, Tensor]()
    if "z0" in inputs:
        how = {"temperature": params["temp"], "positive_factor": params["m"]}
        found["offdropout"] = off_dropout_contrast(*views, inputs["z0"], **how)
    if "dim_temp" in params:
        found["dcl"] = dimension_contrast(*views, temperature=params["dim_temp"])
    weights = {"dcl": params.get("dim_weight", 1.0)}
    return {"loss": sum(weights.get(name, 1.0) * part for name, part in found.items()), **found}


@reproduces("sncse_*", without={"delta"})
def sncse(inputs: Inputs, params: Params) -> Outputs:
    anchors, positives, negations = inputs["z"].unbind(dim=1)
    contrastive = info_nce(anchors, positives, temperature=params["temp"])
    bounds = {"low": params["alpha"], "high": params["beta"]}
    margin = bidirectional_margin(anchors, positives, negations, **bounds)
    return {"loss": contrastive + params["lam"] * margin, "infonce": contrastive, "bml": margin}


@reproduces("cotbert_loss_?", "pna_loss_?", "pna_smooth_?", without={"logits"})
def augmented(inputs: Inputs, params: Params) -> Outputs:
    how: dict[str, Any] = {"temperature": params["temp"]}
    if "scores" in inputs:
        how |= {"scores": inputs["scores"].detach()}
        how |= {"smoothing": params["smooth"].removeprefix("smooth_")}
    assert not params.get("hard_negative_weight")
    return {"loss": augmented_contrast(*inputs["z"].unbind(dim=1), **how)}


@reproduces("pna_weighted_code_?", without={"logits"})
def released_weights(inputs: Inputs, params: Params) -> Outputs:
    """The released code weighs a positive's own hard negative, where SimCSE weighs an anchor's."""
    views, temperature = inputs["z"].unbind(dim=1), params["temp"]
    weight = params["hard_negative_weight"]
    return {
        "loss": augmented_contrast(*views, temperature=temperature, augmented_weight=weight),
        "second_block": augmented_contrast(
            *views, temperature=temperature, hard_negative_weight=weight
        ),
    }


@reproduces("cotbert_denoised_?")
def cotbert(inputs: Inputs, params: Params) -> Outputs:
    views = []
    for number, own in enumerate(params["template_lengths"]):
        padding = inputs["lengths"][:, number] - own
        left = denoise(inputs["h"][:, number], inputs[f"noise{number + 1}"], padding)
        views.append(apply_head(inputs, left))
    return {"loss": augmented_contrast(*views, temperature=params["temp"])}


@reproduces("distillcse_loss_?", "distillcse_shuffled_?")
def distillcse(inputs: Inputs, params: Params) -> Outputs:
    first, second = inputs["z"].unbind(dim=1)
    teachers = inputs["teachers"].detach()
    shares = weigh_teachers([teachers.shape[2]] * len(teachers), alpha=0.33)
    pairs = zip(shares, teachers, strict=True)
    teacher = torch.stack([share * cosine_matrix(own, own) for share, own in pairs]).sum(dim=0)
    student, found = cosine_matrix(first, first), {}
    if "shuffle" in inputs:
        student = shuffle_by_rank(student, teacher, inputs["shuffle"])
        found = {"ends": group_ends(teacher, share=params["group_p"])}
    taus = {f"{who}_temperature": params[f"{who}_temp"] for who in ("student", "teacher")}
    distilled = params["weight"] * list_net(student, teacher, **taus)
    contrastive = info_nce(first, second, temperature=params["temp"])
    loss = contrastive + distilled
    return {"loss": loss, "contrast": contrastive, "distill": distilled, **found}


@reproduces("distillcse_groups_?")
def distillcse_groups(inputs: Inputs, params: Params) -> Outputs:
    return {"ends": group_ends(inputs["teacher_sim"], share=params["group_p"])}


@reproduces("distillcse_teachers_?")
def distillcse_teachers(inputs: Inputs, params: Params) -> Outputs:
    base, large = inputs["base"], inputs["large"]
    found = {}
    for name, teachers in (("base_only", [*base]), ("mixed", [*base, *large])):
        shares = weigh_teachers([own.shape[1] for own in teachers], alpha=params["alpha"])
        pairs = zip(shares, teachers, strict=True)
        found[name] = torch.stack([share * cosine_matrix(own, own) for share, own in pairs]).sum(0)
    return found


@reproduces("multicsr_loss_?", form="bce")
@reproduces("multicsr_oracle_removed_?", form="infonce")
def multicsr(inputs: Inputs, params: Params, form: Any) -> Outputs:
    frozen, phi = inputs["frozen"].unbind(dim=1), params["phi"]
    # The released code compares cosine / temperature with 20 phi.
    bound = phi if form == "infonce" else 20 * phi * params["temp"]
    weights = weigh_triples(*frozen, phi=bound)
    logits = noise_logits(*inputs["z"].unbind(dim=1), temperature=params["temp"])
    return {"loss": debiased_loss(logits, weights, form=form), "weights": weights}


@reproduces("whitenedcse_L1_code_a", "whitenedcse_oracle_L*", without={"per_anchor"})
def whitenedcse(inputs: Inputs, params: Params) -> Outputs:
    anchors, *positives = inputs["z"].unbind(dim=1)
    form: Any = params.get("kind", "L1").lower().replace("_", "-")
    return {"loss": multi_positive(anchors, positives, temperature=params["temp"], form=form)}


def whitened_views(rows: Tensor, inputs: Inputs, params: Params, *, detach: bool = True) -> Tensor:
    """Whitened rows, shape (3 B, D): each third of them is a view with a permutation of its own."""
    orders = [inputs[f"perm{number}"] for number in (1, 2, 3)]
    how = {"groups": params["num_groups"], "detach": detach}
    thirds = zip(rows.chunk(3), orders, strict=True)
    return torch.cat([whiten(third, permutation=order, **how) for third, order in thirds])


@reproduces("whitenedcse_oracle_sgw_fullgrad_?", detach=False)
@reproduces("whitenedcse_sgw_train_?", without={"y_float32"}, detach=True)
def whitenedcse_trained(inputs: Inputs, params: Params, detach: bool) -> Outputs:
    y = whitened_views(inputs["x"], inputs, params, detach=detach)
    return {"loss": (y * inputs["upstream"].detach()).sum(), "y": y}


@reproduces("whitenedcse_sgw_eval_a")
def whitenedcse_evaluated(inputs: Inputs, params: Params) -> Outputs:
    return {"y": whiten(inputs["x"], groups=params["num_groups"], permutation=inputs["perm"])}


@reproduces("whitenedcse_full_code_instance_major_a", view_major=False)
@reproduces("whitenedcse_full_intended_view_major_a", view_major=True)
def whitenedcse_whole(inputs: Inputs, params: Params, view_major: bool) -> Outputs:
    """Whitening, head and loss; the released code takes thirds of sentences for views."""
    z = inputs["z"].transpose(0, 1) if view_major else inputs["z"]
    white = whitened_views(z.reshape(-1, z.shape[2]), inputs, params)
    after = apply_head(inputs, white).view(z.shape)
    anchors, *positives = after.unbind(dim=0 if view_major else 1)
    return {"loss": multi_positive(anchors, positives, temperature=params["temp"])}


@pytest.mark.parametrize("name", ["whitenedcse_sgw_train_a", "whitenedcse_sgw_train_b"])
def test_whitenedcse_whitens_float32_rows(name: str, golden: Callable[[str], Any]) -> None:
    case = golden(name)
    y = whitened_views(case.inputs["x"].detach().float(), case.inputs, case.params)
    assert y.dtype == torch.float32
    # Nearer to the exact values than the released code, whose covariance is float32.
    exact, released = case.outputs["y"], case.outputs["y_float32"]
    ours, theirs = (np.abs(values - exact).max() for values in (y.numpy(), released))
    assert ours < 1e-4
    assert ours <= theirs


def descend(optimizer: Callable[..., Any], inputs: Inputs, *, clip: float | None = None) -> Outputs:
    """The parameter after each of the steps.

    Gradients are clipped as TensorFlow does; PyTorch's clipping divides by the norm plus 1e-6.
    """
    parameter = inputs["param0"].clone().requires_grad_()
    stepping = optimizer([parameter])
    after = []
    for gradient in inputs["gradients"]:
        norm = float(gradient.norm())
        parameter.grad = gradient * (1.0 if clip is None else clip / max(norm, clip))
        stepping.step()
        after.append(parameter.detach().clone())
    return {"param": torch.stack(after)}


@reproduces("consert_adamw_a", decays="after")
@reproduces("bertflow_adam_a", decays="before")
def uncorrected_adamw(inputs: Inputs, params: Params, decays: str) -> Outputs:
    assert not params.get("correct_bias")
    betas = params["beta1"], params["beta2"]
    rest = {"eps": params["eps"], "weight_decay": params["decay"], "decays": decays}
    make = partial(UncorrectedAdamW, lr=params["lr"], betas=betas, **rest)
    return descend(make, inputs, clip=params.get("clip"))


@reproduces("ct_rmsprop_a")
def rmsprop(inputs: Inputs, params: Params) -> Outputs:
    assert params["rho"] == SMOOTHING
    make = partial(torch.optim.RMSprop, lr=params["lr"], alpha=SMOOTHING, eps=params["eps"])
    return descend(make, inputs)


@reproduces("ct_schedule_a")
def schedule(inputs: Inputs, params: Params) -> Outputs:
    steps, boundaries, values = (inputs[k].tolist() for k in ("step", "boundaries", "values"))
    return {"learning_rate": [piecewise_constant(step, boundaries, values) for step in steps]}


MINI: dict[str, Any] = {"backbone": "mini", "corpus": "builtin"}


def test_parameters_of_equal_rate_and_decay_are_one_group() -> None:
    block = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    frozen, own = nn.Linear(2, 2).requires_grad_(False), nn.Linear(4, 4)
    modules = (block, frozen, own)
    (whole,) = grouped_parameters(modules, [], TrainingConfig(**MINI, weight_decay=0.0))
    assert whole["params"] == [*block.parameters(), *own.parameters()]
    config = TrainingConfig(**MINI, weight_decay=0.1, learning_rate=1e-3)
    decaying, resting, fast = grouped_parameters(modules, [ParameterGroup([own], 5.0, 0.0)], config)
    assert decaying["params"] == [block[0].weight, block[2].weight]
    assert resting["params"] == [block[0].bias, *block[1].parameters(), block[2].bias]
    assert fast["params"] == list(own.parameters())
    found = [(g["learning_rate_factor"], g["weight_decay"]) for g in (decaying, resting, fast)]
    assert found == [(1.0, 0.1), (1.0, 0.0), (5.0, 0.0)]
    alone = ParameterGroup([own.bias], learning_rate=2e-3)
    *_, fast = grouped_parameters(modules, [alone], config)
    assert (fast["params"], fast["learning_rate_factor"]) == ([own.bias], 2.0)
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    both = [ParameterGroup([first]), ParameterGroup([first, second])]
    with pytest.raises(TrainingError, match=r"of Linear, Linear has .* in another group too"):
        grouped_parameters([first, second], both, TrainingConfig(**MINI))
    with pytest.raises(TrainingError, match=r"Linear has a parameter .* no trained module"):
        grouped_parameters([first], [ParameterGroup([second])], TrainingConfig(**MINI))


def test_a_parameter_without_a_gradient_does_not_change() -> None:
    still = torch.ones(2, requires_grad=True)
    UncorrectedAdamW([still], lr=0.1, weight_decay=1.0).step()
    np.testing.assert_array_equal(still.detach(), [1, 1])
