"""Shows an encoder of this package to mteb, which knows encoders by a protocol.

mteb takes seconds to import, and seeds the random generators of the process as it is imported;
import it where a task is scored, within `streams_kept`.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cse_methods.errors import EvaluationError

Encode = Callable[[Sequence[str]], Tensor]
"""Encodes N texts, shape (N, D), on the CPU."""


class TaskEncoder:
    """An encoder as mteb's EncoderProtocol; similarities are cosines.

    Args:
        encode: encodes texts; each distinct text of a call is encoded once.
        prompts: the text before each query and before each document, by `query` and `document`,
            where the task has the two; other texts are encoded as they are.
    """

    def __init__(self, encode: Encode, prompts: Mapping[str, str] | None = None) -> None:
        self._encode, self._prompts = encode, dict(prompts or {})

    def encode(self, inputs: Any, *, prompt_type: Any = None, **_: Any) -> NDArray[np.float32]:
        """Encode the texts of a data loader, shape (N, D).

        EvaluationError if a vector is not finite; mteb would score it.
        """
        prompt = "" if prompt_type is None else self._prompts.get(prompt_type.value, "")
        texts = [prompt + text for text in inputs.dataset["text"]]
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = self._encode(list(rows)).float()
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
    before = random.getstate(), np.random.get_state()
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if started else ()
    try:
        with torch.random.fork_rng(list(devices)):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
