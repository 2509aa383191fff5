"""Shows an encoder of this package to mteb, which knows encoders by a protocol.

mteb takes seconds to import, and seeds the random generators of the process as it is imported;
import it where a task is scored, within `streams_kept`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.encoders.sentence_transformers_format import PromptKind
from cse_methods.errors import EvaluationError
from cse_methods.randomness import generators_kept

Encode = Callable[[Sequence[str]], Tensor]
"""Encodes N texts, shape (N, D), on the CPU."""


class TaskEncoder:
    """An encoder as mteb's EncoderProtocol; similarities are cosines.

    Args:
        encode: encodes texts; each distinct text of a call is encoded once.
        prompted: encodes queries, and documents, with their prompts; those that are not given are
            encoded as other texts.

    Attributes:
        used: the members of `prompted` that were called.
    """

    def __init__(self, encode: Encode, prompted: Mapping[PromptKind, Encode] | None = None) -> None:
        self._encode, self._prompted = encode, dict(prompted or {})
        self.used = set[PromptKind]()

    def encode(self, inputs: Any, *, prompt_type: Any = None, **_: Any) -> NDArray[np.float32]:
        """Encode the texts of a data loader, shape (N, D).

        EvaluationError if a vector is not finite; mteb would score it.
        """
        kind: PromptKind | None = getattr(prompt_type, "value", None)
        encode = self._encode
        if kind is not None and kind in self._prompted:
            encode = self._prompted[kind]
            self.used.add(kind)
        texts = list(inputs.dataset["text"])
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = encode(list(rows)).float()
        finite = torch.isfinite(vectors).all(dim=1)
        if not finite.all():
            first = list(rows)[int((~finite).nonzero()[0])]
            raise EvaluationError(
                f"the encoder's vector of {first!r} holds NaN or infinity; it cannot be scored"
            )
        own: NDArray[np.float32] = vectors[[rows[text] for text in texts]].numpy()
        return own

    def similarity(self, first: Any, second: Any) -> Tensor:
        """Compute the cosine of each row of one matrix with each row of another, shape (N, M)."""
        left, right = torch.as_tensor(first), torch.as_tensor(second)
        return F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T

    def similarity_pairwise(self, first: Any, second: Any) -> Tensor:
        """Compute the cosine of each row with its partner in another matrix, shape (N,)."""
        return F.cosine_similarity(torch.as_tensor(first), torch.as_tensor(second), dim=-1)

    @property
    def mteb_model_meta(self) -> Any:
        from mteb.models.model_meta import ModelMeta

        return ModelMeta.create_empty()


@contextmanager
def streams_kept() -> Iterator[None]:
    """Restore the states of all random generators afterwards: Python's, NumPy's and torch's."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else ()
    with generators_kept(), torch.random.fork_rng(list(devices)):
        yield


@contextmanager
def progress_hidden() -> Iterator[None]:
    """Hide the progress bars of `datasets`, which shows one for every change of a table."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if not hidden:
            datasets.enable_progress_bars()
