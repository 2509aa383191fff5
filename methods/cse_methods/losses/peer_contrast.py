"""PCL's loss: two networks are trained by contrast on several views, and are to agree."""

import torch
import torch.nn.functional as F
from torch import Tensor

from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.similarity import cosine_matrix, without_positive


def row_distribution(
    anchors: Tensor, positives: Tensor, others: Tensor, *, temperature: float
) -> Tensor:
    r"""Compute the log-distribution of an anchor over its positives and the other sentences.

    The logits of row i are the cosines, divided by the temperature, of anchor i with each positive
    of sentence i and with the first view of every other sentence.

    Args:
        anchors: shape (B, D).
        positives: further views of each sentence, shape (B, V - 1, D).
        others: first view of each sentence, shape (B, D).
        temperature: > 0.

    Returns:
        Shape (B, V - 1 + B - 1), positives first.

    Source:
        Wu et al. 2022 (PCL), as in its released code.
    """
    by_view = [cosine_matrix(anchors, view).diagonal() for view in positives.unbind(dim=1)]
    own = torch.stack(by_view, dim=1)
    others_cosines = without_positive(cosine_matrix(anchors, others))
    return (torch.cat([own, others_cosines], dim=1) / temperature).log_softmax(dim=1)


def positive_contrast(rows: Tensor, *, positives: int) -> Tensor:
    """Compute the binary cross-entropy of distributions with target 1 for the first columns.

    Args:
        rows: log-probabilities, as returned by `row_distribution`.
        positives: how many columns are positives.

    Returns:
        Scalar, in nats, the mean over all entries. As in the released code, a sigmoid is applied
        to the probabilities, so the loss is between 0.3 and 0.8.
    """
    target = torch.zeros_like(rows)
    target[:, :positives] = 1
    return F.binary_cross_entropy_with_logits(rows.exp(), target)


def peer_contrast(views: Tensor, peer: Tensor | None, *, temperature: float) -> dict[str, Tensor]:
    r"""Compute the terms of PCL's loss, unweighted.

    With :math:`r(a, P, N)` the `row_distribution` of anchors, positives and other sentences, z the
    encoder's views, p the peer's, and view 0 the anchor,

    .. math::
        L_{within} &= \mathrm{KL}(r(p_0, p, p_0) \| r(z_0, z, z_0)) \\
        L_{cross} &= \mathrm{KL}(r(p_0, z, z_0) \| r(z_0, p, p_0))

    each a mean over all entries of the rows, with gradients on both sides.

    Args:
        views: the encoder's embeddings, shape (B, V, D), B >= 2, V >= 2; view 1 is the positive of
            the InfoNCE loss.
        peer: the peer's embeddings, same shape; None without a peer. A peer that receives no
            gradient has no terms of its own.
        temperature: > 0.

    Returns:
        `infonce` and `positive_contrast`; with a peer, `within` and `cross`; if the peer is
        trained, `peer_infonce` and `peer_positive_contrast`. Each is a scalar, in nats, >= 0.

    Source:
        Wu et al. 2022 (PCL), as in its released code.
    """

    def rows(anchors: Tensor, of: Tensor) -> Tensor:
        return row_distribution(anchors[:, 0], of[:, 1:], of[:, 0], temperature=temperature)

    def divergence(target: Tensor, of: Tensor) -> Tensor:
        return (target.exp() * (target - of)).mean()

    def own_terms(of: Tensor, distribution: Tensor) -> tuple[Tensor, Tensor]:
        contrastive = info_nce(of[:, 0], of[:, 1], temperature=temperature)
        return contrastive, positive_contrast(distribution, positives=of.shape[1] - 1)

    of_views = rows(views, views)
    terms = dict(zip(("infonce", "positive_contrast"), own_terms(views, of_views), strict=True))
    if peer is None:
        return terms
    of_peer = rows(peer, peer)
    terms["within"] = divergence(of_peer, of_views)
    terms["cross"] = divergence(rows(peer, views), rows(views, peer))
    if peer.requires_grad:
        names = ("peer_infonce", "peer_positive_contrast")
        terms |= zip(names, own_terms(peer, of_peer), strict=True)
    return terms
