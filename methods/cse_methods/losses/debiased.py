"""DCLR: noise as further negatives, and weights that ignore in-batch ones that may be false."""

from typing import Literal

import torch
from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix, find_positive

DebiasedForm = Literal["bce", "infonce"]
"""Binary cross-entropy on the softmax, as in the released code, or weighted InfoNCE."""


def noise_logits(first: Tensor, second: Tensor, noise: Tensor, *, temperature: float) -> Tensor:
    r"""Compute the anchors' cosines with the positives and with noise, over the temperature.

    Args:
        first: embeddings of the first view, shape (B, D).
        second: embeddings of the second view, shape (B, D).
        noise: further negatives of every anchor, shape (M, D), M >= 0.
        temperature: > 0.

    Returns:
        Shape (B, B + M); the positive of row i is column i.
    """
    check_views(first, second)
    return torch.cat([cosine_matrix(first, second), cosine_matrix(first, noise)], 1) / temperature


def noise_ascent(
    first: Tensor,
    second: Tensor,
    noise: Tensor,
    *,
    temperature: float,
    steps: int,
    step_size: float,
) -> Tensor:
    r"""Move noise to where it is a harder negative.

    Each step moves every row of the noise up the gradient of InfoNCE over positives and noise,

    .. math:: n_m \leftarrow n_m + \eta \frac{g_m}{|g_m|}, \quad
              g_m = \frac{\partial}{\partial n_m} \frac{1}{B} \sum_i -\log
              \frac{e^{s_{ii} / \tau}}{\sum_j e^{s_{ij} / \tau} + \sum_m e^{q_{im} / \tau}}

    with :math:`s_{ij}` the cosine of views and :math:`q_{im}` that of anchor and noise. A row whose
    gradient is 0 does not move.

    Args:
        first: embeddings of the first view, shape (B, D); constant.
        second: embeddings of the second view, shape (B, D); constant.
        noise: the initial noise, shape (M, D), M >= 0; constant.
        temperature: :math:`\tau` > 0.
        steps: >= 0.
        step_size: :math:`\eta`, the length of a step.

    Returns:
        Shape (M, D), constant.

    Source:
        Zhou et al. 2022 (DCLR), as in its released code.
    """
    first, second, moved = first.detach(), second.detach(), noise.detach()
    for _ in range(steps if len(noise) else 0):
        with torch.enable_grad():
            start = moved.clone().requires_grad_()
            logits = noise_logits(first, second, start, temperature=temperature)
            (gradient,) = torch.autograd.grad(find_positive(logits), start)
        length = gradient.norm(dim=1, keepdim=True)
        direction = gradient / length.masked_fill(length == 0, 1)
        moved = moved + step_size * direction
    return moved


def false_negative_weights(first: Tensor, second: Tensor, *, phi: float, noise: int = 0) -> Tensor:
    r"""Compute weights of the negatives: 0 for those that another model considers false.

    Args:
        first: that model's embeddings of the first view, shape (B, D).
        second: its embeddings of the second view, shape (B, D).
        phi: :math:`\phi`; a pair with a cosine above it is a false negative.
        noise: number M of further columns for noise, which is never a false negative.

    Returns:
        Shape (B, B + M), constant; 1 for positives.

    Source:
        Zhou et al. 2022 (DCLR) and its released code.
    """
    check_views(first, second)
    similarities = cosine_matrix(first.detach(), second.detach())
    weights = (similarities <= phi).to(similarities.dtype).fill_diagonal_(1)
    return torch.cat([weights, weights.new_ones(len(weights), noise)], dim=1)


def debiased_loss(logits: Tensor, weights: Tensor, *, form: DebiasedForm) -> Tensor:
    r"""Compute the loss of finding each anchor's positive among weighted negatives.

    With :math:`P = \mathrm{softmax}_k(w_{ik} l_{ik})` by rows, the form `bce` is

    .. math:: L = -\frac{1}{B (B + M)} \sum_i \Big( \log P_{ii}
              + \sum_{k \ne i} \log (1 - P_{ik}) \Big)

    where a negative of weight 0 gets the logit 0, as if its cosine were 0. The form `infonce`
    leaves such negatives out,

    .. math:: L = -\frac{1}{B} \sum_i \log \frac{e^{l_{ii}}}{\sum_k w_{ik} e^{l_{ik}}}

    Args:
        logits: :math:`l`, shape (B, B + M), B + M >= 2, as returned by `noise_logits`.
        weights: :math:`w`, 0 or 1, of the same shape; 1 for positives.
        form: which of the two losses.

    Returns:
        Scalar, in nats, >= 0.

    Source:
        Zhou et al. 2022 (DCLR): `bce` is its released code, in which a probability that rounds to 1
        makes the loss NaN.
    """
    if form == "infonce":
        return find_positive(logits.masked_fill(weights == 0, -torch.inf))
    weighted = logits * weights
    own = torch.eye(*logits.shape, dtype=torch.bool, device=logits.device)
    return -torch.where(own, weighted.log_softmax(dim=1), _log_complement(weighted)).mean()


def _log_complement(logits: Tensor) -> Tensor:
    """Compute log(1 - P) of the softmax P of each row, exactly even if P rounds to 1."""
    indices = logits.argmax(dim=1, keepdim=True)
    largest = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, indices, True)
    others = logits.masked_fill(largest, -torch.inf).logsumexp(dim=1, keepdim=True)
    of_the_largest = others - logits.logsumexp(dim=1, keepdim=True)
    small = logits.softmax(dim=1).masked_fill(largest, 0)
    return torch.where(largest, of_the_largest, torch.log1p(-small))
