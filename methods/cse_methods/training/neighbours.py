"""Nearest neighbours of a corpus by a teacher's vectors, cached per machine, and their batches."""

import logging
from functools import partial
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import default_device, memory_advice
from cse_methods.errors import BackboneError
from cse_methods.files.cache import cache_folder, cache_key, written_once
from cse_methods.training.teachers import (
    TeacherSpec,
    read_array,
    teacher_vectors,
    vectors_depend_on,
    write_header,
)

MOST_NEIGHBOURS = 15
"""Neighbours stored per sentence, so that one file serves every number that a search tries."""
_COSINES_AT_ONCE = 2**26
"""Cosines per block: a quarter of a gigabyte."""
_REVISION = 1
"""Increased when neighbours change for reasons that the teacher's vectors do not show."""

_log = logging.getLogger(__name__)


def nearest_sentences(
    teacher: TeacherSpec, corpus: Corpus, *, max_length: int
) -> NDArray[np.int32]:
    """Find the nearest other sentences of each sentence, by cosine, nearest first.

    Every pair of sentences is compared. The first caller on a machine computes this; others wait
    and then read the same file, in the folder `neighbours` of the cache. Arguments are those of
    `teacher_vectors`.

    Returns:
        Indices into the corpus, a `numpy.memmap` of shape (N, K), K = min(MOST_NEIGHBOURS, N - 1).

    BackboneError if the teacher cannot be loaded, or the result cannot be stored.
    """
    depends_on = {
        "revision": _REVISION,
        "vectors": vectors_depend_on(teacher, corpus, max_length=max_length),
    }
    file = cache_folder("neighbours") / f"{cache_key(depends_on)}.npy"
    vectors = teacher_vectors(teacher, corpus, max_length=max_length)
    with memory_advice(f"it compares {len(vectors)} sentences"):
        return written_once(
            file,
            read=read_array,
            write=partial(_write_neighbours, vectors),
            what=f"the nearest sentences by teacher {teacher.model!r}",
            error=BackboneError,
        )


def with_neighbours(drawn: NDArray[np.int64], nearest: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first B distinct sentences of: each of B drawn ones followed by its neighbours.

    `nearest` has the neighbours of each sentence of the corpus, shape (N, k); all are indices.
    """
    candidates = np.column_stack([drawn, nearest[drawn]]).ravel()
    _, first = np.unique(candidates, return_index=True)
    return candidates[np.sort(first)[: len(drawn)]]


def _write_neighbours(vectors: NDArray[np.float32], stream: IO[bytes]) -> None:
    every = torch.from_numpy(np.array(vectors)).to(default_device())
    every /= every.norm(dim=1, keepdim=True).clamp_min(torch.finfo(every.dtype).tiny)
    count = len(every)
    most, size = min(MOST_NEIGHBOURS, count - 1), max(1, _COSINES_AT_ONCE // count)
    write_header(stream, "<i4", (count, most))
    for start in range(0, count, size):
        _log.info("nearest sentences: %d of %d", start, count)
        cosines = every[start : start + size] @ every.T
        rows = torch.arange(len(cosines), device=every.device)
        cosines[rows, start + rows] = -torch.inf  # a sentence is no neighbour of its own
        nearest = cosines.topk(most, dim=1).indices
        stream.write(nearest.cpu().numpy().astype("<i4", order="C").tobytes())
