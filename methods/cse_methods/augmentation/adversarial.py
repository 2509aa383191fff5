"""Noise along the gradient of a loss, as an adversary adds it."""

from torch import Tensor


def adversarial_noise(gradients: Tensor, *, norm: float) -> Tensor:
    r"""What is added to the embeddings of tokens so that the loss rises fastest.

    .. math:: \epsilon \frac{g}{|g|_2 + 10^{-10}}

    Args:
        gradients: g of the loss by the embeddings of tokens, shape (..., D); taken as constant.
        norm: epsilon >= 0, the length of each token's noise.

    Returns:
        The shape of the gradients.

    Source:
        Yan et al. 2021 (ConSERT), whose adversary needs pairs with labels.
    """
    gradients = gradients.detach()
    lengths: Tensor = gradients.norm(dim=-1, keepdim=True)
    return norm * gradients / (lengths + 1e-10)
