"""Vectors of frozen teachers, encoded once per machine and shared by all trials as files."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from torch import Tensor

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.backbones import (
    fetch_backbone,
    own_pooling,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.loading import load_sentence_encoder
from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import BackboneError
from cse_methods.files.cache import cache_folder, cache_key, written_once
from cse_methods.losses.similarity import cosine_matrix
from cse_methods.settings import Settings, setting

_CHUNK = 8192
"""Sentences encoded per write: 32 MB at width 1024."""
_REVISION = 1
"""Increased when the vectors of a teacher change for reasons that its files do not show."""

_log = logging.getLogger(__name__)


class TeacherSpec(Settings):
    """A frozen encoder that provides similarities; a bare string stands for its `model`."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "best_of": "write {best: {method: …, backbone: …}} for a model of an earlier stage"
    }
    model: str = setting(..., "short name, hub id or folder of an encoder", min_length=1)
    pooler: Pooler | None = setting(
        None, "how its token vectors become one; null is the teacher's own"
    )
    prompt: str | None = setting(
        None, "the text before each sentence, such as `query: `; null is the teacher's own"
    )
    head: bool | None = setting(
        None,
        "whether the dense layer that its weights have on [CLS] is kept, as supervised "
        "SimCSE's is; null: as its authors read it",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"model": value} if isinstance(value, str) else value


def weigh_similarities(
    vectors: Sequence[NDArray[np.float32]], weights: Sequence[float], rows: NDArray[np.int64]
) -> Tensor:
    """Compute the weighted sum of the teachers' cosines for a batch, shape (B, B), on the CPU.

    Args:
        vectors: those of each teacher, as `teacher_vectors` returns them.
        weights: one for each teacher.
        rows: the corpus indices of the batch's sentences, shape (B,).
    """
    total = torch.zeros(len(rows), len(rows))
    for weight, own in zip(weights, vectors, strict=True):
        batch = torch.from_numpy(np.asarray(own[rows]))
        total += weight * cosine_matrix(batch, batch)
    return total


def teacher_vectors(
    teacher: TeacherSpec,
    corpus: Corpus,
    *,
    max_length: int,
    first_layer: int | None = None,
    cache: Path | None = None,
) -> NDArray[np.float32]:
    """Return the teacher's embeddings of every sentence of a corpus, as a read-only memory map.

    The first caller on a machine encodes; others wait for it and then read the same file, which is
    complete or absent. Sentences are truncated to `max_length` word pieces of the teacher's
    tokenizer, special ones included. `first_layer` is that of `load_encoder`. `cache` is by default
    `teachers` in CSE_CACHE, or in the user's cache.

    Returns:
        Shape (N, D), float32, C order; row i belongs to sentence i.

    BackboneError if the teacher cannot be loaded, or its vectors cannot be stored.
    """

    def write(stream: IO[bytes]) -> None:
        reading = teacher.model_dump(exclude={"model"})
        encoder = load_sentence_encoder(teacher.model, first_layer=first_layer, **reading)
        encoder.to(default_device())
        sentences = corpus.sentences
        write_header(stream, "<f4", (len(sentences), encoder.width))
        for start in range(0, len(sentences), _CHUNK):
            _log.info("teacher %s: %d of %d sentences", teacher.model, start, len(sentences))
            part = sentences[start : start + _CHUNK]
            vectors = encoder.encode(part, max_length=max_length).numpy()
            stream.write(vectors.astype("<f4", order="C").tobytes())

    depend_on = vectors_depend_on(teacher, corpus, max_length=max_length, first_layer=first_layer)
    file = (cache or cache_folder("teachers")) / f"{cache_key(depend_on)}.npy"
    return written_once(
        file,
        read=read_array,
        write=write,
        what=f"the vectors of teacher {teacher.model!r}",
        error=BackboneError,
    )


def vectors_depend_on(
    teacher: TeacherSpec, corpus: Corpus, *, max_length: int, first_layer: int | None = None
) -> dict[str, Any]:
    """Return everything that the vectors of a teacher depend on, as JSON."""
    source = resolve_backbone(teacher.model)
    folder = fetch_backbone(source)
    own = own_pooling(source, folder)
    asked = {**teacher.model_dump(exclude={"model"}), "first_layer": first_layer}
    if teacher.head is None and source.reads_head(teacher.pooler):
        asked["head"] = True
    return {
        "revision": _REVISION,
        "weights": weights_sha256(folder),
        "corpus": corpus.sha256,
        "pooling": own.key | {name: value for name, value in asked.items() if value is not None},
        "max_length": max_length,
    }


def read_array(file: Path) -> NDArray[Any] | None:
    """Read an array as a read-only memory map; None if there is none, or it is damaged."""
    try:
        array: NDArray[Any] = np.load(file, mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return array


def write_header(stream: IO[bytes], kind: str, shape: tuple[int, int]) -> None:
    """Begin a file for `read_array`, whose rows follow as bytes in C order."""
    layout = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, layout)
