"""Compute the embeddings for an evaluation, encoding each distinct sentence once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from cse_methods.errors import EvaluationError
from cse_methods.evaluation.models import Model

CHUNK = 4096
"""Number of sentences whose word pieces are in memory at once."""

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and the total."""


class StoredEmbeddings:
    """Embeddings of sentences in a file; memory only holds those of a call.

    `sentences` are all that can be requested later; each is encoded once, shortest first. `folder`
    must have space for N x D x 4 bytes. `progress` is called after every batch.

    Raises:
        EvaluationError: if a vector is not finite, or the file does not fit on the disk.
    """

    def __init__(
        self, model: Model, sentences: Iterable[str], *, folder: Path, progress: OnProgress
    ) -> None:
        ordered = sorted(dict.fromkeys(sentences), key=len)
        self._row: dict[str, int] = {}
        self._width, self._file = model.width, folder / "vectors.f32"
        try:
            with self._file.open("wb") as stream:
                for start in range(0, len(ordered), CHUNK):
                    chunk = ordered[start : start + CHUNK]
                    for count in self._encode_chunk(model, chunk, stream):
                        progress("encoding", count, len(ordered))
        except OSError as problem:
            needed = len(ordered) * model.width * 4 / 2**20
            raise EvaluationError(
                f"cannot keep {needed:.0f} MiB of vectors in {folder}: {problem.strerror}; "
                "free space there, or set TMPDIR to a folder on another disk"
            ) from problem

    def __call__(self, sentences: Sequence[str]) -> Tensor:
        """Return embeddings (N, D), float32, on the CPU; KeyError for an unknown sentence."""
        rows = np.array([self._row[sentence] for sentence in sentences], dtype=np.int64)
        if not len(rows):
            return torch.empty(0, self._width)
        stored = np.memmap(self._file, np.float32, "r", shape=(len(self._row), self._width))
        return torch.from_numpy(stored[rows])

    def _encode_chunk(self, model: Model, chunk: Sequence[str], stream: IO[bytes]) -> Iterator[int]:
        """Encode and store a chunk; yield the number of stored sentences after every batch."""
        for indices, vectors in model.batches(chunk):
            finite = torch.isfinite(vectors).all(dim=1)
            if not finite.all():
                first = chunk[indices[int((~finite).nonzero()[0])]]
                raise EvaluationError(
                    f"the encoder's vector of {first!r} holds NaN or infinity; it cannot be scored"
                )
            stream.write(vectors.numpy().astype("<f4", copy=False).tobytes())
            for index in indices:
                self._row[chunk[index]] = len(self._row)
            yield len(self._row)


def encode_texts(model: Model, texts: Sequence[str]) -> Tensor:
    """Encode texts, shape (N, D), float32, on the CPU, with the word pieces of few in memory."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    vectors = torch.empty(len(texts), model.width)
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        for indices, found in model.batches([texts[index] for index in chunk]):
            vectors[[chunk[index] for index in indices]] = found
    return vectors
