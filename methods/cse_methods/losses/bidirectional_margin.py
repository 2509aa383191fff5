"""The bidirectional margin of SNCSE: a negation is near its sentence, but not too near."""

from torch import Tensor

from cse_methods.losses.similarity import check_views, cosine_matrix


def bidirectional_margin(
    anchors: Tensor, positives: Tensor, soft_negatives: Tensor, *, low: float, high: float
) -> Tensor:
    r"""Compute how far soft negatives are outside the margin between them and the positives.

    With :math:`\Delta_i` the cosine of anchor and soft negative minus that of anchor and positive,

    .. math:: L = \frac{1}{B} \sum_i \max(\Delta_i + \alpha, 0) + \max(-\Delta_i - \beta, 0)

    Args:
        anchors: embeddings of the sentences, shape (B, D).
        positives: embeddings of a second view of them, shape (B, D).
        soft_negatives: embeddings of their negations, shape (B, D).
        low: :math:`\alpha`, in cosine: a soft negative is to be at least this much farther away.
        high: :math:`\beta` >= :math:`\alpha`, in cosine: and at most this much.

    Returns:
        Scalar, in cosine, averaged over anchors, in [0, 2 + low]; unweighted. Between the two
        margins both loss and gradient are 0.

    Raises:
        ValueError: if shapes differ, or unless 0 <= low <= high.

    Source:
        Wang et al. 2022 (SNCSE), as in its released code.
    """
    if not 0 <= low <= high:
        raise ValueError(f"0 <= low <= high must hold, got low={low}, high={high}")
    check_views(anchors, positives, soft_negatives)
    near = cosine_matrix(anchors, positives).diagonal()
    delta = cosine_matrix(anchors, soft_negatives).diagonal() - near  # (B,)
    return ((delta + low).relu() + (-delta - high).relu()).mean()
