"""Nearest neighbours of a corpus by a teacher's vectors, cached per machine, and their batches."""

import logging
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.data.corpora import Corpus
from cse_methods.encoders.devices import default_device, memory_advice
from cse_methods.errors import BackboneError
from cse_methods.files.cache import cache_folder, cache_key, cannot_store, written_once
from cse_methods.training.teachers import TeacherSpec, teacher_vectors, vectors_depend_on

MOST_NEIGHBOURS = 15
"""Neighbours stored per sentence, so that one file serves every number that a search tries."""
_COSINES_AT_ONCE = 2**26
"""Cosines per block: a quarter of a gigabyte."""
_REVISION = 1
"""Increased when neighbours change for reasons that the teacher's vectors do not show."""

_log = logging.getLogger(__name__)


def nearest_sentences(
    teacher: TeacherSpec, corpus: Corpus, *, max_length: int, cache: Path | None = None
) -> NDArray[np.int32]:
    """Find the nearest other sentences of each sentence, by cosine, nearest first.

    Every pair of sentences is compared. The first caller on a machine computes this; others wait
    and then read the same file. `cache` is by default `neighbours` in CSE_CACHE, or in the user's
    cache; the other arguments are those of `teacher_vectors`.

    Returns:
        Indices into the corpus, a `numpy.memmap` of shape (N, K), K = min(MOST_NEIGHBOURS, N - 1).

    Raises:
        BackboneError: if the teacher cannot be loaded, or the result cannot be stored.
    """
    depends_on = {
        "revision": _REVISION,
        "vectors": vectors_depend_on(teacher, corpus, max_length=max_length),
    }
    file = (cache or cache_folder("neighbours")) / f"{cache_key(depends_on)}.npy"
    vectors = teacher_vectors(teacher, corpus, max_length=max_length)
    try:
        with memory_advice(f"it compares {len(vectors)} sentences"):
            return written_once(file, read=_read, write=partial(_write, vectors))
    except OSError as problem:
        what = f"the nearest sentences by teacher {teacher.model!r}"
        raise BackboneError(cannot_store(what, file, problem)) from problem


def with_neighbours(drawn: NDArray[np.int64], nearest: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the first B distinct sentences of: each drawn one followed by its neighbours.

    Args:
        drawn: B distinct indices into the corpus.
        nearest: neighbours of each sentence of the corpus, shape (N, k).

    Returns:
        Indices, shape (B,).
    """
    candidates = np.column_stack([drawn, nearest[drawn]]).ravel()
    _, places = np.unique(candidates, return_index=True)
    return candidates[np.sort(places)[: len(drawn)]]


def _read(file: Path) -> NDArray[np.int32] | None:
    try:
        nearest: NDArray[np.int32] = np.load(file, mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return nearest


def _write(vectors: NDArray[np.float32], stream: IO[bytes]) -> None:
    every = torch.from_numpy(np.array(vectors)).to(default_device())
    every /= every.norm(dim=1, keepdim=True).clamp_min(torch.finfo(every.dtype).tiny)
    count = len(every)
    most, size = min(MOST_NEIGHBOURS, count - 1), max(1, _COSINES_AT_ONCE // count)
    layout = {"descr": "<i4", "fortran_order": False, "shape": (count, most)}
    np.lib.format.write_array_header_1_0(stream, layout)
    for start in range(0, count, size):
        _log.info("nearest sentences: %d of %d", start, count)
        found = _nearest(every, start, start + size, most)
        stream.write(found.cpu().numpy().astype("<i4", order="C").tobytes())


def _nearest(every: Tensor, start: int, end: int, most: int) -> Tensor:
    """Find the `most` nearest unit vectors for each from `start` to `end`, excluding itself."""
    cosines = every[start:end] @ every.T
    rows = torch.arange(len(cosines), device=every.device)
    cosines[rows, start + rows] = -torch.inf
    return cosines.topk(most, dim=1).indices
