"""Average the weights of encoders that were trained from the same initialisation.

Paper: Wortsman et al., ICML 2022, https://arxiv.org/abs/2203.05482: the uniform soup, over seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError


def average_weights(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Average tensors with the same name and shape over one or more states, in float64.

    Each result keeps its dtype. Integer and boolean tensors are taken from the first state.

    Raises:
        BackboneError: names the first tensor that is missing in a state, has another shape there,
            or is missing in the first state.
    """
    count, first, sums = 0, dict[str, Tensor](), dict[str, Tensor]()
    for count, state in enumerate(states, start=1):
        if count == 1:
            first = {name: tensor.detach() for name, tensor in state.items()}
            floats = {name: tensor for name, tensor in first.items() if tensor.is_floating_point()}
            sums = {name: t.to(torch.float64, copy=True) for name, t in floats.items()}
            continue
        for name in (*first, *state):
            shapes = [tuple(s[name].shape) if name in s else None for s in (first, state)]
            if shapes[0] != shapes[1]:
                had = " and ".join("none" if shape is None else str(shape) for shape in shapes)
                raise BackboneError(
                    "encoders can be averaged whose weights have one shape each, and "
                    f"{name} has {had}"
                )
        for name, total in sums.items():
            total += state[name].detach()
    means = {name: (total / count).to(first[name].dtype) for name, total in sums.items()}
    return first | means


def average_encoders(folders: Sequence[Path], *, attention: str = "sdpa") -> Encoder:
    """Average the weights of saved encoders; at most two of them are in memory at a time.

    BackboneError if one cannot be loaded, or the weights differ in names or shapes.
    """
    averaged = load_encoder(str(folders[0]), attention=attention)
    others = (load_encoder(str(folder)).state_dict() for folder in folders[1:])
    averaged.load_state_dict(average_weights(chain([averaged.state_dict()], others)))
    return averaged
