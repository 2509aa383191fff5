"""Read the layers of a saved encoder, of every kind in this package."""

from pathlib import Path

# Importing these modules registers their layers.
from cse_methods.encoders import convolution as convolution
from cse_methods.encoders import flow as flow
from cse_methods.encoders import post_pooling as post_pooling
from cse_methods.encoders.saved_layers import SavedLayer, TokenLayer, read_layer
from cse_methods.encoders.sentence_transformers_format import (
    layers_of,
    read_modules,
    token_layers_of,
)
from cse_methods.errors import UnknownModelError


def read_layers(folder: Path) -> tuple[list[TokenLayer], list[SavedLayer]]:
    """Read the layers of a saved encoder before and after its pooler, each in order.

    Raises:
        UnknownModelError: if it has other kinds of layers, or if one has settings, an activation, a
            position or a weight file that this package does not read.
        BackboneError: if a layer cannot be read.
    """
    modules = read_modules(folder)
    before = [read_layer(folder, module) for module in token_layers_of(modules)]
    after = [read_layer(folder, module) for module in layers_of(modules)]
    tokens = [layer for layer in before if isinstance(layer, TokenLayer)]
    rest = [layer for layer in after if not isinstance(layer, TokenLayer)]
    if len(tokens) < len(before) or len(rest) < len(after):
        raise UnknownModelError(
            f"{folder} has a layer on the wrong side of its pooler; layers of word pieces come "
            "before it, all others after it"
        )
    return tokens, rest
