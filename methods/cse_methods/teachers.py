"""Vectors of frozen teachers: encoded once per machine into files that all trials share."""

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from platformdirs import user_cache_path
from pydantic import Field, model_validator
from torch import Tensor

from cse_methods.backbones import fetch, own_pooling, resolve, weights_sha256
from cse_methods.contract import Pooler, Settings
from cse_methods.data.corpora import Corpus
from cse_methods.errors import BackboneError
from cse_methods.loading import load_encoder
from cse_methods.losses.similarity import cosine_matrix

_CHUNK = 8192
"""Sentences encoded between two writes: 32 MB at width 1024."""
_REVISION = 1
"""Raised when the vectors of a teacher change for reasons that its files do not show."""

_log = logging.getLogger(__name__)


class TeacherSpec(Settings):
    """A frozen encoder that gives a ranking; a bare string stands for its `model`."""

    model: str = Field(min_length=1, description="short name, hub id or folder of an encoder")
    pooler: Pooler | None = Field(
        default=None, description="how its token vectors become one; null is the teacher's own"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value


class TeacherRanking:
    """What teachers say of the sentences of a batch, from vectors encoded once a machine.

    Args:
        teachers: frozen encoders.
        weights: one a teacher.
        corpus: the training sentences.
        max_length: sentences are cut here, in the teacher's own word pieces.
    """

    def __init__(
        self,
        teachers: Sequence[TeacherSpec],
        weights: Sequence[float],
        *,
        corpus: Corpus,
        max_length: int,
    ) -> None:
        self.weights = tuple(weights)
        self.vectors = [teacher_vectors(one, corpus, max_length=max_length) for one in teachers]

    def similarities(self, rows: NDArray[np.int64]) -> Tensor:
        """Weighted sum of the teachers' cosines, shape (B, B), on the CPU.

        Args:
            rows: places of the batch's sentences in the corpus, shape (B,).
        """
        total = torch.zeros(len(rows), len(rows))
        for weight, vectors in zip(self.weights, self.vectors, strict=True):
            batch = torch.from_numpy(np.asarray(vectors[rows]))
            total += weight * cosine_matrix(batch, batch)
        return total


def teacher_vectors(
    teacher: TeacherSpec, corpus: Corpus, *, max_length: int, cache: Path | None = None
) -> NDArray[np.float32]:
    """The teacher's embeddings of every sentence of a corpus, as a read-only memory map.

    The first caller on a machine encodes, the others wait for it and then read the same file. A
    file is whole or absent: it gets its name only when it is complete and on disk.

    Args:
        teacher: the encoder; it uses its own tokenizer, without dropout or head.
        corpus: N sentences.
        max_length: sentences are cut here, in the teacher's word pieces, special ones included.
        cache: folder of the files; None is `teachers` in CSE_CACHE, or in the user's cache.

    Returns:
        `numpy.memmap` of shape (N, D), float32, C order; row i belongs to sentence i.

    Raises:
        BackboneError: if the teacher cannot be loaded, or its vectors cannot be stored.
    """
    file = (cache or _default_cache()) / f"{_key(teacher, corpus, max_length)}.npy"
    try:
        vectors = _open(file)
        return _encode_once(teacher, corpus, max_length, file) if vectors is None else vectors
    except OSError as problem:
        raise BackboneError(
            f"cannot store the vectors of teacher {teacher.model!r} in {file.parent}: "
            f"{problem.strerror or problem}; free space there, or set CSE_CACHE to a folder "
            "on another disk"
        ) from problem


def _default_cache() -> Path:
    root = os.environ.get("CSE_CACHE")
    return (Path(root) if root else user_cache_path("cse")) / "teachers"


def _key(teacher: TeacherSpec, corpus: Corpus, max_length: int) -> str:
    """Names the file after all that its content depends on."""
    source = resolve(teacher.model)
    folder = fetch(source)
    own = own_pooling(source, folder)
    parts = {
        "revision": _REVISION,
        "weights": weights_sha256(folder),
        "corpus": corpus.sha256,
        "pooling": asdict(own) | ({"pooler": teacher.pooler} if teacher.pooler else {}),
        "max_length": max_length,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _open(file: Path) -> NDArray[np.float32] | None:
    """The stored vectors; None if there are none, or the file was damaged since."""
    try:
        vectors: NDArray[np.float32] = np.load(file, mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return vectors


def _encode_once(
    teacher: TeacherSpec, corpus: Corpus, max_length: int, file: Path
) -> NDArray[np.float32]:
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        if _open(file) is None:  # still, now that the lock is ours
            _encode(teacher, corpus, max_length, file)
    vectors: NDArray[np.float32] = np.load(file, mmap_mode="r")
    return vectors


def _encode(teacher: TeacherSpec, corpus: Corpus, max_length: int, file: Path) -> None:

    encoder = load_encoder(teacher.model, pooler=teacher.pooler)
    encoder.to("cuda" if torch.cuda.is_available() else "cpu")
    sentences = corpus.sentences

    def chunks() -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(sentences), _CHUNK):
            _log.info("teacher %s: %d of %d sentences", teacher.model, start, len(sentences))
            part = sentences[start : start + _CHUNK]
            yield encoder.encode(part, max_length=max_length).numpy()

    _store(file, chunks(), shape=(len(sentences), encoder.width))


def _store(file: Path, chunks: Iterator[NDArray[np.float32]], *, shape: tuple[int, int]) -> None:
    """Write an .npy file under a name of its own, then rename it.

    Through a stream, not a memory map: on a full disk the one raises, the other kills the process.
    """
    partial = file.with_suffix(".partial")
    layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
    try:
        with partial.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, layout)
            for chunk in chunks:
                stream.write(chunk.astype("<f4", order="C").tobytes())
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
