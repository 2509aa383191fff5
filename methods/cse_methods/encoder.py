"""Pre-trained encoders with a pooler: sentences in, one vector a sentence out; and the head."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from cse_methods.backbones import fetch, own_pooling, resolve
from cse_methods.contract import Pooler
from cse_methods.errors import BackboneError
from cse_methods.layout import Pooling, write_layout
from cse_methods.pooling import pool

_POSITION_OFFSET = {"bert": 0, "roberta": 2, "xlm-roberta": 2}
"""Rows of the position table that hold no position, by family."""


class Head(nn.Module):
    """The dense layer with tanh that follows the pooler in training only.

    Args:
        width: D of the embeddings; weights are drawn from N(0, 0.02), the bias is 0.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Shape (B, D) to shape (B, D), in [-1, 1]."""
        return torch.tanh(self.dense(embeddings))


class Encoder(nn.Module):
    """A pre-trained model of the BERT or RoBERTa family with its tokenizer and a pooler.

    Args:
        model: gives the vectors of word pieces.
        tokenizer: the model's own.
        pooling: how the vectors of word pieces become one.
        limit: word pieces the model can read, special ones included.
    """

    def __init__(self, model: Any, tokenizer: Any, pooling: Pooling, *, limit: int) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.limit = limit

    @property
    def width(self) -> int:
        """D of the embeddings."""
        return int(self.model.config.hidden_size)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.parameters()).device

    def tokenize(self, sentences: Sequence[str], *, max_length: int | None) -> dict[str, Tensor]:
        """Word pieces, padded to the longest sentence.

        Args:
            sentences: B >= 1 of them.
            max_length: sentences are cut here, special pieces included; None is the model's limit.

        Returns:
            `input_ids` and `attention_mask`, each of shape (B, L), on the encoder's device. Token
            types are left out: single sentences have the first only, and RoBERTa has none.
        """
        return self._pad(self._pieces(sentences, max_length))

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What `tokenize` returns to embeddings of shape (B, D), float32, before any head."""
        every_layer = self.pooling.pooler in ("avg_top2", "avg_first_last")
        output = self.model(**inputs, output_hidden_states=every_layer)
        states = output.hidden_states if every_layer else (output.last_hidden_state,)
        # Averages of half-precision vectors would lose what the layers kept.
        return pool([state.float() for state in states], inputs["attention_mask"], self.pooling)

    def encode(
        self, sentences: Sequence[str], *, batch_size: int = 128, max_length: int | None = None
    ) -> Tensor:
        """Embeddings as used at test time: no dropout, no head, no gradient.

        Each distinct sentence is encoded once, among sentences of its length. The mode of the
        module, training or evaluation, is afterwards as before.

        Args:
            sentences: N of them.
            batch_size: sentences encoded at once; changes memory and speed only.
            max_length: as for `tokenize`.

        Returns:
            Shape (N, D), float32, on the CPU.
        """
        place = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        pieces = self._pieces(list(place), max_length)
        by_length = sorted(range(len(pieces)), key=lambda row: len(pieces[row]))
        vectors = torch.empty(len(pieces), self.width)
        with self._evaluating():
            for start in range(0, len(by_length), batch_size):
                rows = by_length[start : start + batch_size]
                vectors[rows] = self(self._pad([pieces[row] for row in rows])).cpu()
        return vectors[[place[sentence] for sentence in sentences]]

    def save(self, folder: Path) -> None:
        """Write a folder that `load_encoder` reads back to the same vectors.

        It has the layout of sentence-transformers (release 5 or newer), which loads it to the
        same vectors for the poolers `cls` and `avg`. For `avg_top2` and `avg_first_last` it has no
        module; it refuses such a folder, and only `load_encoder` reads it.

        Args:
            folder: made if it is not there.
        """
        # Calls leave their truncation in the tokenizer, and would so change the saved file.
        self.tokenizer.backend_tokenizer.no_truncation()
        with _quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        write_layout(folder, self.pooling, width=self.width, max_length=self.limit)

    def _pieces(self, sentences: Sequence[str], max_length: int | None) -> list[list[int]]:
        if not sentences:
            return []
        cut = min(max_length or self.limit, self.limit)
        ids = self.tokenizer(
            list(sentences), truncation=True, max_length=cut, return_attention_mask=False
        )
        return list(ids["input_ids"])

    def _pad(self, pieces: list[list[int]]) -> dict[str, Tensor]:
        rows = [torch.tensor(row) for row in pieces]
        padding = self.tokenizer.pad_token_id
        ids = pad_sequence(rows, batch_first=True, padding_value=padding)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        return {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)


def load_encoder(
    name: str,
    *,
    pooler: Pooler | None = None,
    first_layer: int | None = None,
    attention: str = "sdpa",
    dropout: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Encoder:
    """The encoder of that name, fetched if needed, in evaluation mode on the CPU.

    Args:
        name: short name, folder or hub id.
        pooler: how token vectors become one; None is the encoder's own.
        first_layer: what `first` is in avg_first_last: 0 embeddings, 1 first layer; None is the
            encoder's own.
        attention: the kernel, "sdpa" or "eager".
        dropout: of hidden vectors and attention; None keeps the encoder's.
        dtype: of the weights, whatever they are stored as.

    Raises:
        BackboneError: if it is unknown, cannot be fetched, is not of a family we know, or its
            weights do not fit its configuration.
    """
    source = resolve(name)
    folder = fetch(source)
    own = own_pooling(source, folder)
    pooling = Pooling(pooler or own.pooler, own.first_layer if first_layer is None else first_layer)
    try:
        with _quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder)
            config = AutoConfig.from_pretrained(folder)
            _check(config, pooling, name)
            if dropout is not None:
                config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
            model, report = AutoModel.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                attn_implementation=attention,
                add_pooling_layer=False,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as problem:
        reason = str(problem).strip().partition("\n")[0]
        raise BackboneError(
            f"backbone {name!r} cannot be loaded from {folder}: {reason}"
        ) from problem
    if missing := sorted(report["missing_keys"]):
        raise BackboneError(
            f"backbone {name!r}: the weights in {folder} lack {len(missing)} of the model's "
            f"tensors, {missing[0]} the first; is it the file of another model?"
        )
    positions = config.max_position_embeddings - _POSITION_OFFSET[config.model_type]
    limit = min(positions, tokenizer.model_max_length)
    return Encoder(model, tokenizer, pooling, limit=limit).eval()


def _check(config: Any, pooling: Pooling, name: str) -> None:
    if config.model_type not in _POSITION_OFFSET:
        raise BackboneError(
            f"backbone {name!r} is of the family {config.model_type!r}; "
            f"known are {', '.join(_POSITION_OFFSET)}"
        )
    if pooling.first_layer > config.num_hidden_layers:
        raise BackboneError(
            f"first_layer {pooling.first_layer} is beyond the {config.num_hidden_layers} layers "
            f"of backbone {name!r}"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars, and its report of tensors that we leave out."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
