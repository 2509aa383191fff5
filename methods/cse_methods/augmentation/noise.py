"""Noise on embeddings: drawn, or along the gradient of a loss, as an adversary adds it."""

from torch import Tensor


def add_noise(embeddings: Tensor, noise: Tensor, *, spread: float) -> Tensor:
    """Embeddings with noise on every element.

    Args:
        embeddings: any shape.
        noise: drawn from N(0, 1), of the same shape.
        spread: standard deviation of what is added, > 0.
    """
    return embeddings + spread * noise


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
