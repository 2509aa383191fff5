"""What to do where the memory of a GPU does not do."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cse_methods.contract import TrainingConfig
from cse_methods.errors import TrainingError


@contextmanager
def advising_on_memory(config: TrainingConfig) -> Iterator[None]:
    """Turn the error of a GPU whose memory is full into a TrainingError that says the way out."""
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
