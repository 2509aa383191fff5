"""Flows, heads, queues and edits reproduce the stored reference values, in float64."""

from collections.abc import Callable
from functools import partial
from math import log
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cse_methods.augmentation.cutoff import draw_places, zero_elements, zero_features, zero_tokens
from cse_methods.augmentation.noise import adversarial_noise
from cse_methods.augmentation.replaced_pieces import mask_for_generator, replace_pieces
from cse_methods.encoders.edits import Edits, piece_positions
from cse_methods.encoders.flow import Flow
from cse_methods.encoders.pooling import pool
from cse_methods.encoders.sentence_transformers_format import Pooling
from cse_methods.encoders.word_pieces import most_repeats, repeat_pieces
from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.likelihood import bits_per_dimension, log_likelihood
from cse_methods.losses.lists import reduce
from cse_methods.losses.masked_pieces import masked_piece_loss
from cse_methods.losses.nt_xent import nt_xent
from cse_methods.losses.replaced_pieces import (
    DetectedOver,
    replace_first_embedding,
    replaced_piece_loss,
)
from cse_methods.losses.tension import build_pairs, contrastive_tension, in_batch_tension
from cse_methods.papers.mocose import Projection, prediction_head
from cse_methods.training.batchnorm_head import BatchNormHead
from cse_methods.training.key_queue import KeyQueue, ema_momentum
from cse_methods.training.momentum import enqueue, moving_average_

Values = dict[str, Tensor]
Params = dict[str, Any]
Compute = Callable[[Values, Params], Values]


# BERT-flow


Layout = list[tuple[str, list[int]]]


class FlowWithVolume(nn.Module):
    """What a flow gives for a batch, with the log of its volume."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow(rows), self.flow.log_determinant()


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


def unflatten_flow(values: Tensor, layout: Layout) -> Values:
    sizes = [int(torch.tensor(shape).prod()) for _, shape in layout]
    parts = torch.split_with_sizes(values, sizes)
    return {
        flow_parameter_name(name): part.view(shape)
        for (name, shape), part in zip(layout, parts, strict=True)
    }


def bertflow_empty_flow(width: int, params: Params) -> Flow:
    return Flow(width, params["levels"], params["depth"], params["width"]).double()


def bertflow_flow(inputs: Values, params: Params) -> Values:
    width = inputs["x"].shape[1]
    weights = unflatten_flow(inputs["weights"], params["layout"])
    whole = FlowWithVolume(bertflow_empty_flow(width, params))
    named = {f"flow.{name}": value for name, value in weights.items()}
    assert named.keys() == dict(whole.named_parameters()).keys()
    mapped, volume = torch.func.functional_call(whole, named, (inputs["x"],))
    likelihood = log_likelihood(mapped, volume)
    bits = bits_per_dimension(likelihood, width=width)
    return {
        **{"loss": bits.mean(), "z": mapped, "log_likelihood": likelihood},
        **{"log_det": volume, "nll": bits},
    }


def bertflow_inverse(inputs: Values, params: Params) -> Values:
    loaded = bertflow_empty_flow(inputs["z"].shape[1], params)
    loaded.load_state_dict(unflatten_flow(inputs["weights"].detach(), params["layout"]))
    found = loaded.inverse(inputs["z"])
    torch.testing.assert_close(loaded(found), inputs["z"], rtol=1e-9, atol=1e-12)
    return {"x": found}


def bertflow_start(inputs: Values, params: Params) -> Values:
    fresh = bertflow_empty_flow(inputs["x"].shape[1], params)
    weights = unflatten_flow(inputs["weights"].detach(), params["layout_weights"])
    fresh.load_state_dict(weights, strict=False)
    mapped = fresh.start(inputs["x"].detach())
    state = fresh.state_dict()
    started = [state[flow_parameter_name(name)].flatten() for name, _ in params["layout_started"]]
    return {"z": mapped, "started": torch.cat(started)}


def bertflow_poolers(inputs: Values, params: Params) -> Values:
    del params
    states, mask = list(inputs["hidden_states"]), inputs["attention_mask"]
    return {
        "released": pool(states, mask, Pooling("avg_first_last", first_layer=1)),
        "intended": pool(states, mask, Pooling("avg_top2")),
    }


# ConSERT


def consert_contrast(inputs: Values, params: Params) -> Values:
    assert params["normalize"]
    forth, back = nt_xent(*inputs["z"].unbind(dim=1), temperature=params["temp"])
    return {"loss": forth + back, "loss_a": forth, "loss_b": back}


def consert_cutoff(inputs: Values, params: Params) -> Values:
    zero = {"row": zero_tokens, "column": zero_features, "random": zero_elements}
    left = zero[params["direction"]](inputs["embeddings"], inputs["cut"])
    drawn = draw_places(consert_available(inputs, params["direction"]), rate=params["rate"])
    assert torch.equal((drawn >= 0).sum(dim=1), (inputs["cut"] >= 0).sum(dim=1))
    loss = (left * inputs["upstream"].detach()).sum()
    return {"loss": loss, "embeddings": left, "num_cut": (drawn >= 0).sum(dim=1)}


def consert_available(inputs: Values, direction: str) -> Tensor:
    """What each sentence can lose: its tokens, all features, or the elements of its tokens."""
    embeddings, real = inputs["embeddings"], inputs["attention_mask"].bool()
    if direction == "row":
        return real
    if direction == "column":
        return torch.ones_like(embeddings[:, 0], dtype=torch.bool)
    return real.unsqueeze(-1).expand_as(embeddings).flatten(1)


def consert_shuffle(inputs: Values, params: Params) -> Values:
    mask, orders = inputs["attention_mask"], inputs["order"]
    pieces = mask.flatten().nonzero().squeeze(1)
    rows = [order[order >= 0].tolist() for order in orders]
    given = {"attention_mask": mask, "pieces": pieces}
    positions = torch.arange(mask.shape[1]).repeat(len(mask))
    positions[pieces] = piece_positions(given, Edits(positions=rows), lowest=0, limit=mask.shape[1])
    positions = positions.view_as(mask)
    return {
        "position_ids": positions,
        "position_ids_offset": params["first_position"] + positions,
    }


def consert_adversary(inputs: Values, params: Params) -> Values:
    """A step with labels: a stand-in encoder, a classifier of pairs, and the adversary's views."""
    labels, real = inputs["labels"], inputs["attention_mask"].unsqueeze(-1).double()

    def encode(embeddings: Tensor) -> Tensor:
        vectors = (embeddings @ inputs["W"]).tanh()
        return (vectors * real).sum(dim=1) / real.sum(dim=1)

    def classify(first: Tensor, second: Tensor) -> Tensor:
        features = torch.cat([first, second, (first - second).abs()], dim=1)
        return F.cross_entropy(features @ inputs["Wc"].T + inputs["bc"], labels)

    embedded = [inputs["E_a"], inputs["E_b"]]
    plain = [encode(one) for one in embedded]
    normal = classify(*plain)
    gradients = torch.autograd.grad(normal, embedded, retain_graph=True)
    noises = [adversarial_noise(one, norm=params["noise_norm"]) for one in gradients]
    moved = [encode(one + noise) for one, noise in zip(embedded, noises, strict=True)]
    pairs = [(first, second) for first in (plain[0], moved[0]) for second in (plain[1], moved[1])]
    adversarial = torch.stack([classify(*pair) for pair in pairs]).mean()
    contrastive = torch.stack(
        [
            direction
            for two in zip(plain, moved, strict=True)
            for direction in nt_xent(*two, temperature=params["temp"])
        ]
    ).sum()
    return {
        "loss": params["adv_rate"] * adversarial + params["cl_rate"] * contrastive,
        "normal_loss": normal,
        **dict(zip(("noise_a", "noise_b"), noises, strict=True)),
        **{"contrast": contrastive, "adv_loss": adversarial},
    }


# CT


def ct_tension(inputs: Values, params: Params) -> Values:
    labels = inputs["labels"]
    losses = contrastive_tension(inputs["a"], inputs["b"], labels)
    return {
        "loss": reduce(losses, params["reduction"]),
        "positive": losses[labels == 1].sum(),
        "negative": losses[labels == 0].sum(),
    }


def ct_tension_summed(inputs: Values, params: Params) -> Values:
    return {"loss": ct_tension(inputs, params)["loss"]}


def ct_in_batch(inputs: Values, params: Params) -> Values:
    del params
    return {
        "loss": sum(
            in_batch_tension(inputs["a"], inputs["b"], log_scale=inputs["logit_scale"]),
            torch.zeros((), dtype=torch.float64),
        )
    }


def ct_pairs(inputs: Values, params: Params) -> Values:
    positives, negatives = inputs["positives"].tolist(), inputs["negatives"].tolist()
    count = params["negatives"]
    free = build_pairs(positives, negatives, per_positive=count, anchored=False)
    used = negatives[: len(positives) * count]
    own = build_pairs(positives, used, per_positive=count, anchored=True)
    assert own.labels == free.labels
    found = {
        **{"first": free.first, "second": free.second, "labels": free.labels},
        **{"first_anchored": own.first, "second_anchored": own.second},
    }
    return {name: torch.tensor(numbers) for name, numbers in found.items()}


# DiffCSE


def diffcse_total(views: Tensor, detection: Tensor, params: Params) -> Values:
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    return {"loss": contrastive + params["lam"] * detection, "infonce": contrastive}


def diffcse_loss(inputs: Values, params: Params, *, over: DetectedOver = "all") -> Values:
    logits, labels, mask = (inputs[n] for n in ("rtd_logits", "labels", "attention_mask"))
    detection = replaced_piece_loss(logits, labels, mask, over=over)
    return diffcse_total(inputs["z"], detection, params) | {"rtd": detection}


def diffcse_conditional(inputs: Values, params: Params) -> Values:
    mask = inputs["attention_mask"]
    views = (inputs["h"] @ inputs["W"].T + inputs["b"]).tanh()
    edited, labels = replace_pieces(inputs["input_ids"], mask, inputs["generator_argmax"])
    assert edited[:, 0].eq(params["cls_token"]).all()
    read = replace_first_embedding(inputs["E"][edited], views.flatten(0, 1))
    weights = mask[..., None].to(read)
    mean = (read * weights).sum(dim=1, keepdim=True) / weights.sum(dim=1, keepdim=True)
    judged = (read + mean @ inputs["U"].T).tanh() @ inputs["C"].T + inputs["c"]
    return {"loss": diffcse_total(views, replaced_piece_loss(judged, labels, mask), params)["loss"]}


def diffcse_projection(inputs: Values, params: Params) -> Values:
    head = BatchNormHead(inputs["x"].shape[1]).double()
    norms = (head.first_norm, head.second_norm)
    for number, norm in enumerate(norms, start=1):
        assert (norm.eps, norm.momentum) == (params["eps"], params["momentum"])
        norm.running_mean = inputs[f"running_mean{number}"].detach().clone()
        norm.running_var = inputs[f"running_var{number}"].detach().clone()
    given = {
        "first.weight": inputs["W1"],
        "first_norm.weight": inputs["gamma"],
        "first_norm.bias": inputs["beta"],
        "second.weight": inputs["W2"],
    }
    projected = torch.func.functional_call(head, given, (inputs["x"],))
    found = {"loss": (projected * inputs["upstream"]).sum(), "y": projected}
    for number, norm in enumerate(norms, start=1):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        found |= {f"running_mean{number}": norm.running_mean}
        found |= {f"running_var{number}": norm.running_var}
    head.eval()
    return found | {"y_eval": torch.func.functional_call(head, given, (inputs["x"],))}


def test_diffcse_masks_for_the_generator(golden: Callable[[str], Any]) -> None:
    case = golden("diffcse_generator_masking_a")
    found = mask_for_generator(
        *(
            case.inputs[name]
            for name in (
                *("input_ids", "special_tokens_mask", "uniform_select"),
                *("uniform_mask", "uniform_random", "random_words"),
            )
        ),
        rate=case.params["masking_ratio"],
        mask=case.params["mask_token"],
    )
    assert found.tolist() == case.outputs["mlm_input_ids"].tolist()


def test_diffcse_replaced_pieces(golden: Callable[[str], Any]) -> None:
    case = golden("diffcse_replaced_tokens_a")
    names = ("input_ids", "attention_mask", "generator_argmax")
    edited, labels = replace_pieces(*(case.inputs[name] for name in names))
    assert edited.tolist() == case.outputs["edited_ids"].tolist()
    assert labels.tolist() == case.outputs["labels"].tolist()


# ESimCSE


def esimcse_loss(inputs: Values, params: Params) -> Values:
    z, queue = inputs["z"], inputs.get("queue")
    return {"loss": info_nce(z[:, 0], z[:, 1], temperature=params["temp"], queue=queue)}


def esimcse_queue_by_step(inputs: Values, params: Params) -> Values:
    queue, used = torch.empty(0, 1), {}
    # The rows of all batches are numbered through.
    for step, rows in enumerate(
        torch.arange(16.0).unsqueeze(1).split(tuple(inputs["batch_sizes"]))
    ):
        used[f"queue_used_at_step{step}"] = queue[:, 0]
        queue = enqueue(queue, rows, size=params["neg_size"])
    return {**used, "queue_final": queue[:, 0]}


def esimcse_momentum_by_step(inputs: Values, params: Params) -> Values:
    follows, leads = nn.Linear(4, 3, bias=False).double(), nn.Linear(4, 3, bias=False).double()
    follows.weight.data = inputs["param_m0"].detach().clone()
    steps = []
    for value in inputs["params"].detach():
        leads.weight.data = value
        moving_average_(follows, leads, momentum=params["momentum"])
        steps.append(follows.weight.detach().clone())
    return {"param_m": torch.stack(steps)}


def test_esimcse_repetition(golden: Callable[[str], Any]) -> None:
    case = golden("esimcse_bpe_repetition_a")
    inputs, outputs, rate = case.inputs, case.outputs, case.params["dup_rate"]
    for row, length in enumerate(inputs["lengths"].tolist()):
        first, *content, last = inputs["ids"][row, :length].tolist()
        # Stored positions count [CLS]; zeros fill the row up, and -1 ends it.
        positions = [p - 1 for p in inputs["dup_positions"][row].tolist() if p > 0]
        expected = outputs["ids"][row, : outputs["lengths"][row]].tolist()
        assert [first, *repeat_pieces(content, positions), last] == expected
        assert len(positions) == outputs["num_added"][row]
        most = most_repeats(length, rate=rate, bounds="released")
        assert most == outputs["max_possible_add"][row]


# InfoCSE


def infocse_full(inputs: Values, params: Params) -> Values:
    """Rows of both views one after another, as the code has them; here without further layers."""
    told, read = inputs["cls"].flatten(0, 1), inputs["skip"].detach().flatten(0, 1)
    given = {
        "first.weight": inputs["W1"],
        "first_norm.weight": inputs["gamma"],
        "first_norm.bias": inputs["beta"],
        "second.weight": inputs["W2"],
    }
    head = BatchNormHead(told.shape[1]).double()
    views = torch.func.functional_call(head, given, (told,)).unflatten(0, (-1, 2))
    contrastive = info_nce(*views.unbind(dim=1), temperature=params["temp"])
    logits = replace_first_embedding(read, told) @ inputs["V"].T + inputs["c"]
    guesses = masked_piece_loss(logits, inputs["mlm_labels"].flatten(0, 1))
    loss = contrastive + params["mlm_weight"] * guesses
    return {"loss": loss, "contrast": contrastive, "mlm": guesses}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([1, -100], log(2)), ([1, 0], (log(2) + log(4)) / 2), ([-100, -100], 0.0)],
)
def test_infocse_guesses_by_hand(labels: list[int], expected: float) -> None:
    """The pieces that stood there have a probability of a half and of a quarter."""
    logits = torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]]).log()
    loss = masked_piece_loss(logits, torch.tensor(labels))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


# MoCoSE


def mocose_loss(inputs: Values, params: Params) -> Values:
    return {
        "loss": info_nce(
            inputs["query"], inputs["keys"], temperature=params["temp"], queue=inputs["queue"]
        )
    }


def mocose_queue_by_step(inputs: Values, params: Params) -> Values:
    size, start = params["queue_size"], params["initial_size"]
    # Random rows are numbered from -1 down, keys from 0 up.
    queue = KeyQueue(-torch.arange(1.0, size + 1).unsqueeze(1), size, start, start)
    used = {}
    sizes = inputs["batch_sizes"].tolist()
    for step, keys in enumerate(torch.arange(float(sum(sizes))).unsqueeze(1).split(sizes)):
        used[f"queue_used_at_step{step}"] = queue.negatives()[:, 0]
        queue.add(keys)
    return {**used, "queue_final": queue.rows[:, 0]}


def mocose_average_by_step(inputs: Values, params: Params) -> Values:
    follows, leads = nn.Linear(4, 3, bias=False).double(), nn.Linear(4, 3, bias=False).double()
    follows.weight.data = inputs["param_m0"].detach().clone()
    steps, momenta = [], []
    for step, value in enumerate(inputs["params"].detach(), start=1):
        leads.weight.data = value
        momentum = ema_momentum(step, decay=params["decay"], total_steps=params["total_steps"])
        moving_average_(follows, leads, momentum=momentum)
        momenta.append(momentum)
        steps.append(follows.weight.detach().clone())
    return {"param_m": torch.stack(steps), "momentum": torch.tensor(momenta, dtype=torch.float64)}


def mocose_heads(inputs: Values, params: Params) -> Values:
    pooler = nn.Linear(8, 8)
    projection, prediction = Projection(8, 0.0), prediction_head(8, 2, 0.0)
    branch = nn.ModuleList([pooler, projection, prediction])
    stored = ("Wp", "bp", "W1", "b1", "g1", "c1", "W2", "b2", "g2", "c2", "W3", "b3")
    given = dict(zip((name for name, _ in branch.named_parameters()), stored, strict=True))

    def run(h: Tensor) -> tuple[Tensor, Tensor]:
        key = projection(pooler(h))
        return key, prediction(key)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch = branch

        def forward(self, h: Tensor) -> tuple[Tensor, Tensor]:
            return run(h)

    values = {f"branch.{name}": inputs[key] for name, key in given.items()}
    key, query = torch.func.functional_call(Whole(), values, (inputs["h"],))
    return {"loss": (query * inputs["upstream"].detach()).sum(), "key": key, "query": query}


def mocose_cutoff(inputs: Values, params: Params) -> Values:
    del params
    return {
        "token_cutoff": zero_tokens(inputs["embeddings"], inputs["tokens"]),
        "feature_cutoff": zero_features(inputs["embeddings"], inputs["features"]),
    }


def test_mocose_the_momentum_ends_at_one() -> None:
    assert ema_momentum(10, decay=0.5, total_steps=10) == 1
    assert ema_momentum(11, decay=0.5, total_steps=10) == 1
    assert ema_momentum(5, decay=0.5, total_steps=10) == pytest.approx(0.75)
    with pytest.raises(ValueError, match="decay in"):
        ema_momentum(1, decay=1.5, total_steps=10)


CASES: dict[str, Compute] = {
    "bertflow_flow_a": bertflow_flow,
    "bertflow_inverse_a": bertflow_inverse,
    "bertflow_init_a": bertflow_start,
    "bertflow_avg_last2_code_a": bertflow_poolers,
    "consert_ntxent_a": consert_contrast,
    "consert_token_cutoff_a": consert_cutoff,
    "consert_feature_cutoff_a": consert_cutoff,
    "consert_element_cutoff_a": consert_cutoff,
    "consert_shuffle_a": consert_shuffle,
    "consert_adversarial_a": consert_adversary,
    "ct_bce_a": ct_tension,
    "ct_bce_sum_a": ct_tension_summed,
    "ct_inbatch_a": ct_in_batch,
    "ct_pairs_a": ct_pairs,
    "diffcse_loss_a": diffcse_loss,
    "diffcse_oracle_realtokens_a": partial(diffcse_loss, over="real"),
    "diffcse_conditional_a": diffcse_conditional,
    "diffcse_projection_a": diffcse_projection,
    "esimcse_noqueue_loss_a": esimcse_loss,
    "esimcse_queue_loss_a": esimcse_loss,
    "esimcse_queue_loss_b": esimcse_loss,
    "esimcse_queue_update_a": esimcse_queue_by_step,
    "esimcse_momentum_update_a": esimcse_momentum_by_step,
    "mocose_loss_a": mocose_loss,
    "mocose_queue_a": mocose_queue_by_step,
    "mocose_ema_a": mocose_average_by_step,
    "mocose_heads_a": mocose_heads,
    "mocose_cutoff_a": mocose_cutoff,
    "infocse_full_a": infocse_full,
}
METHODS = ("bertflow", "consert", "ct", "diffcse", "esimcse", "infocse", "mocose")
OMITTED = {"ct": {"logits"}, "mocose": {"logits"}}
"""Stored outputs that ours do not give, by method."""
ELSEWHERE = {
    # Tests of the optimisers read these.
    *("bertflow_adam_a", "consert_adamw_a", "ct_schedule_a", "ct_rmsprop_a"),
    # Tests of their own above.
    *("diffcse_generator_masking_a", "diffcse_replaced_tokens_a", "esimcse_bpe_repetition_a"),
    # A perturbation below what float32 can hold.
    "mocose_fgsm_a",
}


def test_values_and_gradients_of_every_case(compare_with_golden: Callable[..., None]) -> None:
    compare_with_golden(CASES, OMITTED)


def test_no_stored_case_is_left_out(golden_names: Callable[..., set[str]]) -> None:
    stored = golden_names(*(f"{method}_*" for method in METHODS))
    assert stored == CASES.keys() | ELSEWHERE
