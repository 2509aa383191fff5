"""Explains what to do if the memory of a GPU is full."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cse_methods.contract import TrainingConfig
from cse_methods.errors import TrainingError


@contextmanager
def advising_on_memory(config: TrainingConfig) -> Iterator[None]:
    """Convert an out-of-memory error of a GPU into a TrainingError that names ways out."""
    try:
        yield
    except torch.OutOfMemoryError as problem:
        reason = str(problem).partition(". ")[0]
        raise TrainingError(
            f"the GPU's memory is full, with batch_size {config.batch_size}, "
            f"gradient_accumulation {config.gradient_accumulation}, max_length {config.max_length} "
            f"and precision {config.precision} ({reason}); set gradient_accumulation: "
            f"{2 * config.gradient_accumulation}, which keeps all negatives, or a smaller "
            "batch_size, or a larger resources.gpu, so that fewer trials share a GPU"
        ) from problem
