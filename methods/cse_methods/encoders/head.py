"""The head: what stands between the pooler and the loss in training."""

from torch import nn

from cse_methods.encoders.post_pooling import Dense


class Head(Dense):
    """The dense layer with tanh that follows the pooler in training only.

    Args:
        width: D of the embeddings; weights are drawn from N(0, 0.02), the bias is 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, width), "tanh")
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)
