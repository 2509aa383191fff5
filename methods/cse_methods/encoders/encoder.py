"""Encoders: sentences in, one vector a sentence out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from cse_methods.encoders.families import encoder_family
from cse_methods.encoders.packed_forward import hidden_states, read_one_piece
from cse_methods.encoders.packing import PACKED
from cse_methods.encoders.pooling import pool
from cse_methods.encoders.post_pooling import Layer, output_width, write_layers
from cse_methods.encoders.reading import quiet
from cse_methods.encoders.sentence_transformers_format import Pooling, write_format
from cse_methods.encoders.template import Template, plain_template, prompt_template
from cse_methods.encoders.word_pieces import batched_by_length
from cse_methods.errors import BackboneError

PIECES_AT_ONCE = {"cpu": 4096, "cuda": 65_536}
"""Word pieces of a batch at test time, padding included, by device: they bound the memory."""


class Encoder(nn.Module):
    """A pre-trained model of one of the families read here, with its tokenizer and a pooler.

    Args:
        model: gives the vectors of word pieces.
        tokenizer: the model's own.
        pooling: how the vectors of word pieces become one.
        limit: word pieces the model can read, special ones included.
        post_pooling: the layers after the pooler, in order.

    Attributes:
        template: the word pieces around a sentence at test time.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooling: Pooling,
        *,
        limit: int,
        post_pooling: Sequence[Layer] = (),
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.limit = limit
        # Checkpoints hold the weights of these layers under the name `tail`.
        self.add_module("tail", nn.ModuleList(post_pooling))
        self._packs = model.config._attn_implementation == PACKED
        self._family = encoder_family(model.config)
        prompt = pooling.prompt
        self.template = prompt_template(prompt, tokenizer) if prompt else plain_template(tokenizer)

    def with_post_pooling(self, *layers: Layer) -> "Encoder":
        """An encoder that shares this one's weights and has further layers at the end."""
        return Encoder(
            self.model,
            self.tokenizer,
            self.pooling,
            limit=self.limit,
            post_pooling=[*self.post_pooling, *layers],
        )

    @property
    def post_pooling(self) -> list[Layer]:
        """The layers after the pooler, in order."""
        return list(cast(Iterable[Layer], self.tail))

    @property
    def width(self) -> int:
        """D of the embeddings."""
        return output_width(self.post_pooling) or self._hidden_width

    @property
    def _hidden_width(self) -> int:
        return int(self.model.config.hidden_size)

    @property
    def first_position(self) -> int:
        """The row of the position table that the first word piece has."""
        return self._family.first_position

    @property
    def dropout(self) -> float:
        """The highest dropout of its vectors and attention in training."""
        return max(float(getattr(self.model.config, name)) for name in self._family.dropout)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(self.parameters()).device

    def prompt(self, words: str) -> Template:
        """The template of a prompt: `{}` is the sentence, its vector that of `[MASK]`.

        Raises:
            BackboneError: if it lacks one of these.
        """
        return prompt_template(words, self.tokenizer)

    def pieces(
        self, sentences: Sequence[str], template: Template, *, max_length: int | None = None
    ) -> list[list[int]]:
        """Word pieces of each sentence, without special ones.

        Args:
            sentences: any number of them.
            template: what will stand around them.
            max_length: a sentence is cut so that its row is no longer than this; None is the
                model's limit.

        Raises:
            BackboneError: if the template fills the row.
        """
        if not sentences:
            return []
        longest = min(max_length or self.limit, self.limit)
        if longest <= len(template):
            raise BackboneError(
                f"{longest} word pieces have no room for a sentence beside the {len(template)} "
                "of its prompt and special ones; raise max_length"
            )
        ids = self.tokenizer(
            [template.text(sentence) for sentence in sentences],
            add_special_tokens=False,
            truncation=True,
            max_length=longest - len(template),
            return_attention_mask=False,
        )
        return list(ids["input_ids"])

    def pad(
        self, rows: Sequence[list[int]], positions: Sequence[list[int]] | None = None
    ) -> dict[str, Tensor]:
        """What `forward` reads, padded to the longest row.

        Args:
            rows: B >= 1 rows of word pieces, special ones included.
            positions: of each piece, the row of the position table; None counts through each row.

        Returns:
            On the encoder's device, `input_ids` and `attention_mask`, each of shape (B, L), and
            `pieces`, the places of the T word pieces among the B * L, shape (T,); `positions`, of
            shape (B, L), where they are given. Token types are left out: single sentences have the
            first only, and some families have none.
        """
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(max(map(len, rows))) < lengths[:, None]
        ids = torch.full(mask.shape, self.tokenizer.pad_token_id)
        ids[mask] = torch.tensor([piece for row in rows for piece in row])
        # Found here: where the mask is on a GPU, the host would have to wait for it.
        pieces = mask.flatten().nonzero().squeeze(1)
        inputs = {"input_ids": ids, "attention_mask": mask.long(), "pieces": pieces}
        if positions is not None:
            inputs["positions"] = torch.zeros_like(ids)
            inputs["positions"][mask] = torch.tensor([place for row in positions for place in row])
        return {name: value.to(self.device) for name, value in inputs.items()}

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What `pad` returns to embeddings of shape (B, D), float32, before any head."""
        embeddings = self._vectors(inputs)
        for layer in self.post_pooling:
            embeddings = layer(embeddings)
        return embeddings

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Embeddings as used at test time: in the encoder's template, no dropout, no gradient.

        Each distinct sentence is encoded once.

        Args:
            sentences: N of them.
            max_length: as for `pieces`.

        Returns:
            Shape (N, D), float32, on the CPU.
        """
        place = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        vectors = self.encode_rows(self.rows(list(place), max_length=max_length))
        return vectors[[place[sentence] for sentence in sentences]]

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """The word pieces of each sentence at test time, special ones included; as `encode`."""
        contents = self.pieces(sentences, self.template, max_length=max_length)
        return [self.template(content) for content in contents]

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        """Embeddings of N rows of word pieces at test time: shape (N, D), float32, on the CPU."""
        vectors = torch.empty(len(rows), self.width)
        for places, batch in self.batches(rows):
            vectors[places] = batch
        return vectors

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Embeddings of rows of word pieces, as at test time, in batches of similar length.

        After each batch the module is in the same mode, training or evaluation, as before.

        Args:
            rows: with their special pieces, as `pad` takes them.

        Yields:
            Places in `rows`, and their vectors: shape (B, D), float32, on the CPU.
        """
        at_once = PIECES_AT_ONCE.get(self.device.type, PIECES_AT_ONCE["cpu"])
        for places in batched_by_length([len(row) for row in rows], at_once=at_once):
            with self._evaluating():
                vectors = self(self.pad([rows[place] for place in places])).cpu()
            yield places, vectors

    def save(self, folder: Path) -> None:
        """Write a folder from which `load_encoder` gives an encoder with the same vectors.

        The folder is in the format of sentence-transformers (release 6). That library gives the
        same vectors for the poolers `cls` and `avg`. It has no module for the other poolers and
        refuses such a folder; only `load_encoder` reads it.

        Args:
            folder: made if it is not there.
        """
        # Calls leave their truncation in the tokenizer, and would so change the saved file.
        self.tokenizer.backend_tokenizer.no_truncation()
        with quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        write_format(
            folder,
            self.pooling,
            width=self._hidden_width,
            max_length=self.limit,
            post_pooling=write_layers(folder, self.post_pooling),
        )

    def _vectors(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """What the pooler makes of each row, shape (B, D), float32."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        first = self.first_position
        marked = self._marked(ids)
        if self._packs and self._family.bert_layers and self.pooling.reads_one_piece:
            column = 0 if marked is None else marked
            return read_one_piece(self.model, inputs, column, first_position=first).float()
        every_layer = self.pooling.pooler in ("avg_top2", "avg_first_last")
        if self._packs and len(inputs["pieces"]) < ids.numel():
            states = hidden_states(
                self.model, inputs, first_position=first, every_layer=every_layer
            )
        else:
            own = {"position_ids": inputs["positions"]} if "positions" in inputs else {}
            output = self.model(ids, attention_mask=mask, output_hidden_states=every_layer, **own)
            states = output.hidden_states if every_layer else [output.last_hidden_state]
        # Averages of half-precision vectors would lose what the layers kept.
        return pool([state.float() for state in states], mask, self.pooling, marked=marked)

    def _marked(self, ids: Tensor) -> Tensor | None:
        """The place of the last mask of each row: an earlier one is the sentence's own."""
        if self.pooling.pooler != "mask":
            return None
        masks: Tensor = ids == self.tokenizer.mask_token_id
        from_the_end = masks.flip(1).int().argmax(dim=1)
        return ids.shape[1] - 1 - from_the_end

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.train(training)
