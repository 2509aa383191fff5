"""How much disk a sweep takes, from the size of its encoder."""

from cse_methods.encoders.backbones import locate_backbone, resolve_backbone

CHECKPOINT = 4
"""A running trial's checkpoint, in encoders: the weights, the optimiser's two moments, the best."""


def disk_bytes(backbone: str, *, trials: int, at_once: int) -> int | None:
    """What kept models and running checkpoints take at most; None if the encoder is not here.

    A trial that has ended keeps no checkpoint, and no model unless it is complete.
    """
    folder = locate_backbone(resolve_backbone(backbone))
    if folder is None:
        return None
    files = list(folder.glob("model*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    return sum(file.stat().st_size for file in files) * (trials + CHECKPOINT * at_once)


def gigabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
