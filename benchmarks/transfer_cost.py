"""What the classifiers of a transfer task cost: side by side, and one at a time with torch.optim.

Launch: make bench-eval. On features of MR's size (10,662 x 384) whose classes overlap as much as
MR's do, in the protocol that papers report with: 10 folds in 10 folds, 4 penalties. Both in one run
and on as many threads as OMP_NUM_THREADS says; the plain loop does one fold's four fits.
"""

import sys
import time

import numpy as np
import torch

from cse_methods.transfer.descent import TrainingFold
from cse_methods.transfer.folds import nested
from cse_methods.transfer.protocol import MAX_EPOCHS, SENTEVAL_SEED, TEST_PROTOCOL, regularisations
from cse_methods.transfer.samples import Samples

SENTENCES, WIDTH = 10_662, 384


def overlapping_classes() -> Samples:
    """Unit vectors, as MiniLM gives them, that a linear classifier tells apart to about 3/4."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=SENTENCES)
    features = rng.normal(size=(SENTENCES, WIDTH))
    features += 1.2 * np.outer(2 * labels - 1, rng.normal(size=WIDTH) / WIDTH**0.5)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return Samples(torch.from_numpy(features.astype(np.float32)), labels)


def plain_fit(samples: Samples, fold: TrainingFold, penalty: float) -> None:
    """SentEval's loop around one torch.nn.Linear."""
    order = np.random.RandomState(SENTEVAL_SEED)
    torch.manual_seed(SENTEVAL_SEED)
    features, labels = samples.features[fold.train], torch.from_numpy(samples.labels[fold.train])
    dev, dev_labels = samples.features[fold.validation], samples.labels[fold.validation]
    model = torch.nn.Linear(WIDTH, 2)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=penalty)
    best, misses, epochs = -1.0, 0, 0
    while misses <= TEST_PROTOCOL.tenacity and epochs <= MAX_EPOCHS:
        for _ in range(TEST_PROTOCOL.epoch_size):
            for batch in torch.from_numpy(order.permutation(len(features))).split(
                TEST_PROTOCOL.batch_size
            ):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(features[batch]), labels[batch]).backward()
                optimizer.step()
        epochs += TEST_PROTOCOL.epoch_size
        accuracy = float(np.mean(model(dev).argmax(dim=1).numpy() == dev_labels))
        best, misses = max(best, accuracy), misses + (accuracy <= best)


def main() -> None:
    """Print the seconds of both, and how many times faster a fit is side by side."""
    samples = overlapping_classes()
    penalties = regularisations(TEST_PROTOCOL, folds=False)
    started = time.perf_counter()
    accuracy = nested(samples, TEST_PROTOCOL, test=True).test
    together = time.perf_counter() - started
    fits = TEST_PROTOCOL.kfold * (TEST_PROTOCOL.kfold * len(penalties) + 1)

    # A test fold and a validation fold, a tenth and a tenth of the rest, are left out.
    rows = np.random.default_rng(1).permutation(SENTENCES)
    fold = TrainingFold(rows[2026:], rows[1066:2026])
    started = time.perf_counter()
    for penalty in penalties:
        plain_fit(samples, fold, penalty)
    alone = (time.perf_counter() - started) / len(penalties)
    sys.stdout.write(
        f"side by side: {together:.1f} s for {fits} fits ({torch.get_num_threads()} threads), "
        f"accuracy {accuracy:.3f}\n"
        f"one at a time: {alone:.2f} s a fit, so {alone * fits:.0f} s for {fits}\n"
        f"times faster: {alone * fits / together:.1f}\n"
    )


if __name__ == "__main__":
    main()
