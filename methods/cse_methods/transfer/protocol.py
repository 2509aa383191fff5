"""How a transfer task is scored: SentEval's settings, as papers report and as trainers use them."""

from dataclasses import dataclass
from typing import Literal

SENTEVAL_SEED = 1111
"""The seed of the folds, of every classifier's first weights and of the order of its batches."""
MAX_EPOCHS = 200
"""No look at the validation accuracy is followed by more training after this many."""


@dataclass(frozen=True)
class TransferProtocol:
    """A linear classifier on frozen embeddings, and how its regularisation is chosen.

    Source:
        Conneau and Kiela 2018 (SentEval), without a hidden layer.
    """

    classifier: Literal["pytorch", "scikit-learn"] = "pytorch"
    """By gradient descent with early stopping, or scikit-learn's LogisticRegression, to
    convergence. These are SentEval's own names for its two paths; for the second one, only `kfold`
    matters of what follows."""
    kfold: int = 10
    """Folds where a task has no dev set of its own."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """With torch's defaults: learning rate 1e-3 and 1e-2."""
    batch_size: int = 64
    tenacity: int = 5
    """Looks without a better validation accuracy that are forgiven; one more ends training."""
    epoch_size: int = 4
    """Epochs between two looks at the validation accuracy."""


TEST_PROTOCOL = TransferProtocol()
"""What papers report."""
DEV_PROTOCOL = TransferProtocol(
    kfold=5, optimizer="rmsprop", batch_size=128, tenacity=3, epoch_size=2
)
"""What SimCSE scores its checkpoints with while it trains."""


def regularisations(protocol: TransferProtocol, *, folds: bool) -> tuple[float, ...]:
    """List the values to choose from, in the order that decides between equals.

    They are L2 penalties for `pytorch`, their inverse C for `scikit-learn`; of the latter nested
    folds and a dev set of its own have another list than one round of folds.
    """
    if protocol.classifier == "pytorch":
        return (1e-5, 1e-4, 1e-3, 1e-2)
    return tuple(2.0**power for power in (range(-1, 6) if folds else range(-2, 4)))
