"""Compare the cost of a transfer task's classifiers: trained in parallel, and by plain torch.optim.

Launch: make bench-eval. The features have MR's size (10,662 x 384) and classes that overlap as much
as MR's. The protocol is the papers': 10 folds within 10 folds, 4 penalties. Both run in one process
on OMP_NUM_THREADS threads; the plain loop does only the four fits of one fold.
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
    """Make unit vectors, as MiniLM's, of which a linear classifier gets about 3/4 right."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=SENTENCES)
    features = rng.normal(size=(SENTENCES, WIDTH))
    features += 1.2 * np.outer(2 * labels - 1, rng.normal(size=WIDTH) / WIDTH**0.5)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return Samples(torch.from_numpy(features.astype(np.float32)), labels)


def plain_fit(samples: Samples, fold: TrainingFold, penalty: float) -> None:
    """Train one torch.nn.Linear by SentEval's loop."""
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
    """Print the seconds of both, and how many times faster parallel training is per fit."""
    samples = overlapping_classes()
    penalties = regularisations(TEST_PROTOCOL, folds=False)
    started = time.perf_counter()
    accuracy = nested(samples, TEST_PROTOCOL, test=True).test
    together = time.perf_counter() - started
    fits = TEST_PROTOCOL.kfold * (TEST_PROTOCOL.kfold * len(penalties) + 1)

    # Leave out a test fold, a tenth of all rows, and a validation fold, a tenth of the rest.
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
