"""Parameter groups, and the optimisers that papers use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cse_methods.config import TrainingConfig
from cse_methods.errors import TrainingError

EPSILON = {
    "adamw": 1e-8,
    "adamw_without_bias_correction": 1e-6,
    "bert_adamw": 1e-6,
    "rmsprop": 1e-7,
}
"""The term that each optimiser adds to the root of a gradient's mean square."""
_OF_THE_DEVICE = {"lr", "fused", "capturable"}
"""Options of a group that depend on the device of its parameters."""
SMOOTHING = 0.9
"""RMSprop's decay of the mean square."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters, alone or of whole modules, with their own learning rate or weight decay."""

    members: Sequence[nn.Module | nn.Parameter]
    learning_rate_factor: float = 1.0
    """Multiplies the learning rate of the trial at every step."""
    weight_decay: float | None = None
    """Applies to all parameters, biases too; None applies the trial's, which excludes some."""
    learning_rate: float | None = None
    """Replaces the learning rate of the trial; the trial's schedule applies to it."""


def grouped_parameters(
    trained: Sequence[nn.Module], own: Iterable[ParameterGroup], config: TrainingConfig
) -> list[dict[str, Any]]:
    """Group every trained parameter once, by learning rate and weight decay.

    Parameters of fewer than two dimensions (biases, weights of normalisation layers, scalars) do
    not decay, unless their group has a weight decay of its own.

    Args:
        trained: modules; their parameters with gradients are trained.
        own: groups of some of their parameters.
        config: of the trial; for parameters outside groups with their own.

    Returns:
        Groups for PyTorch's optimisers, with a `learning_rate_factor`.

    TrainingError if a parameter is in two groups, or in none of the trained modules.
    """
    parameters = {id(p): p for module in trained for p in module.parameters() if p.requires_grad}
    group_of: dict[int, ParameterGroup] = {}
    for group in own:
        members = (m.parameters() if isinstance(m, nn.Module) else (m,) for m in group.members)
        ids = {id(p) for p in chain.from_iterable(members) if p.requires_grad}
        if ids - parameters.keys() or ids & group_of.keys():
            kinds = ", ".join(type(member).__name__ for member in group.members)
            problem = "in no trained module" if ids - parameters.keys() else "in another group too"
            raise TrainingError(f"the parameter group of {kinds} has a parameter that is {problem}")
        group_of |= dict.fromkeys(ids, group)
    ungrouped, alike = ParameterGroup(trained), dict[tuple[float, float], list[Tensor]]()
    for key, parameter in parameters.items():
        group = group_of.get(key, ungrouped)
        usual = config.weight_decay if parameter.dim() > 1 else 0.0
        decay = usual if group.weight_decay is None else group.weight_decay
        factor = group.learning_rate_factor
        if group.learning_rate is not None:
            factor *= group.learning_rate / config.learning_rate
        alike.setdefault((factor, decay), []).append(parameter)
    return [
        {"params": members, "learning_rate_factor": factor, "weight_decay": decay}
        for (factor, decay), members in alike.items()
    ]


def make_optimizer(config: TrainingConfig, groups: list[dict[str, Any]]) -> Optimizer:
    """Create the optimiser that `config` names, for groups from `grouped_parameters`."""
    name, rate = config.optimizer, config.learning_rate
    epsilon = config.optimizer_epsilon or EPSILON[name]
    if name == "adamw":
        # The fused version takes a third of the time of PyTorch's default, on CPU too.
        if not groups[0]["params"][0].is_cuda:
            return torch.optim.AdamW(groups, lr=rate, eps=epsilon, fused=True)
        # Everything that changes between steps is on the GPU, as CUDA graphs require.
        own = [group | {"lr": group["params"][0].new_full((), rate)} for group in groups]
        return torch.optim.AdamW(own, eps=epsilon, fused=True, capturable=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(groups, lr=rate, alpha=SMOOTHING, eps=epsilon)
    first = name == "bert_adamw"
    return UncorrectedAdamW(groups, lr=rate, eps=epsilon, decays="before" if first else "after")


def restore_optimizer(optimizer: Optimizer, stored: dict[str, Any]) -> None:
    """Load a stored state, even from another device; device-specific options are kept.

    Learning rates are kept too; each step sets them.
    """
    groups = [
        theirs | {name: own[name] for name in _OF_THE_DEVICE & own.keys()}
        for own, theirs in zip(optimizer.param_groups, stored["param_groups"], strict=True)
    ]
    optimizer.load_state_dict({**stored, "param_groups": groups})


class UncorrectedAdamW(Optimizer):
    r"""AdamW without bias correction, which makes the first steps longer.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \frac{m}{\sqrt{v} + \epsilon}

    Args:
        params: parameters or groups of them.
        lr: eta > 0.
        betas: beta_1 and beta_2 in [0, 1).
        eps: epsilon > 0.
        weight_decay: lambda >= 0; eta lambda p is subtracted.
        decays: whether p in that term is its value "before" the step, as in BERT's own optimiser,
            or "after" it, as in the AdamW of transformers 3.

    Source:
        Kingma and Ba 2015 without the correction of section 3; Loshchilov and Hutter 2019.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        decays: Literal["before", "after"] = "after",
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        self.decays = decays

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step; parameters without a gradient are unchanged and do not decay."""
        del closure
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            shrink = 1 - rate * group["weight_decay"]
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
                square = (
                    state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
                )
                if self.decays == "before":
                    parameter.mul_(shrink)
                parameter.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-rate)
                if self.decays == "after":
                    parameter.mul_(shrink)
