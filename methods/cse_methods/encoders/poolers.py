"""The names of poolers, which make the vectors of a text's word pieces one vector."""

from typing import Literal

Pooler = Literal["cls", "avg", "avg_top2", "avg_first_last", "mask"]
"""The vector of the first piece, a mean (of the last layer, of the last two, or of `first_layer`
and the last), or the vector of the mask in a prompt."""
