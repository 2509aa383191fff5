"""Encoders: map sentences to one vector each."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from cse_methods.encoders.devices import memory_advice, send_tensor
from cse_methods.encoders.edits import UNEDITED, Edits, edited, piece_positions
from cse_methods.encoders.families import encoder_family, first_position
from cse_methods.encoders.packing import PACKED, hidden_states, read_one_piece, spread_mask
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.reading import quiet
from cse_methods.encoders.saved_layers import SavedLayer, TokenLayer, last_width, write_layers
from cse_methods.encoders.sentence_transformers_format import Pooling, write_format
from cse_methods.encoders.template import Template, make_template, prompt_template
from cse_methods.encoders.word_pieces import batched_by_length
from cse_methods.errors import BackboneError

PIECES_AT_ONCE = {"cpu": 4096, "cuda": 65_536}
"""The most word pieces of a batch at test time, padding included, by device; bounds the memory."""
_SEVERAL_LAYERS = ("avg_top2", "avg_first_last")
"""The poolers that read more than the last layer."""


class Encoder(nn.Module):
    """A pre-trained model of a supported family, with its tokenizer and a pooler.

    Args:
        model: computes the vectors of word pieces.
        tokenizer: the model's own.
        pooling: how the vectors of word pieces are reduced to one.
        limit: the most word pieces that the model reads, special ones included.
        token_layers: the layers between the model's last vectors and the pooler, in order.
        post_pooling: the layers after the pooler, in order.

    Attributes:
        template: the word pieces around a sentence at test time.
        family: the properties of the model's family.
        first_position: the row in the position table of the first word piece.
        reading_key: encoders with equal keys give equal `rows`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooling: Pooling,
        *,
        limit: int,
        token_layers: Sequence[TokenLayer] = (),
        post_pooling: Sequence[SavedLayer] = (),
    ) -> None:
        super().__init__()
        if token_layers:
            _refuse_several_layers(pooling)
        self.model = model
        self.tokenizer = tokenizer
        self.pooling = pooling
        self.limit = limit
        # Checkpoints store the weights of these layers under the name `tail`.
        self.add_module("tail", nn.ModuleList(post_pooling))
        self.add_module("token_tail", nn.ModuleList(token_layers))
        self._packs = model.config._attn_implementation == PACKED
        self.family = encoder_family(model.config)
        self.first_position = first_position(model.config.to_dict())
        # As sentence-transformers counts: a blank at the prompt's end may be a piece of its own.
        self._prompt_pieces = len(tokenizer(pooling.prompt or "")["input_ids"]) - 1
        masked = pooling.pooler == "mask"
        self.template = make_template(pooling.prompt, tokenizer, masked=masked)
        self.reading_key: Hashable = tokenizer, self.template

    def with_post_pooling(self, *layers: SavedLayer) -> "Encoder":
        """Return an encoder that shares this one's weights, with further layers at the end."""
        return self._copy_with(post_pooling=layers)

    def with_token_layers(self, *layers: TokenLayer) -> "Encoder":
        """Return an encoder that shares this one's weights, with further layers before the pooler.

        Raises:
            BackboneError: if the pooler reads more than the last layer.
        """
        return self._copy_with(token_layers=layers)

    def with_pooler(self, pooler: Pooler) -> "Encoder":
        """Return an encoder that shares this one's weights, with a pooler other than `mask`."""
        prompt = None if self.pooling.pooler == "mask" else self.pooling.prompt
        return self._copy_with(pooling=replace(self.pooling, pooler=pooler, prompt=prompt))

    def with_prompt(self, prompt: str) -> "Encoder":
        """Return an encoder that shares this one's weights, with this text before each sentence.

        Raises:
            BackboneError: if the tokenizer cannot keep such a text apart from a sentence.
        """
        return self._copy_with(pooling=replace(self.pooling, prompt=prompt))

    def _copy_with(
        self,
        *,
        pooling: Pooling | None = None,
        token_layers: Sequence[TokenLayer] = (),
        post_pooling: Sequence[SavedLayer] = (),
    ) -> "Encoder":
        return Encoder(
            self.model,
            self.tokenizer,
            pooling or self.pooling,
            limit=self.limit,
            token_layers=[*self.token_layers, *token_layers],
            post_pooling=[*self.post_pooling, *post_pooling],
        )

    @property
    def token_layers(self) -> list[TokenLayer]:
        return list(cast(Iterable[TokenLayer], self.token_tail))

    @property
    def post_pooling(self) -> list[SavedLayer]:
        return list(cast(Iterable[SavedLayer], self.tail))

    @property
    def width(self) -> int:
        """D, the width of the embeddings."""
        layers = [*self.token_layers, *self.post_pooling]
        return last_width(layers) or int(self.model.config.hidden_size)

    @property
    def dropout(self) -> float:
        """The highest dropout of hidden vectors and attention in training."""
        return max(float(getattr(self.model.config, name)) for name in self.family.dropout)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    def prompt(self, words: str) -> Template:
        """Make the template of a prompt: `{}` is the sentence, whose vector is read at `[MASK]`.

        Raises:
            BackboneError: if the words lack one of these.
        """
        return prompt_template(words, self.tokenizer)

    def pieces(
        self, sentences: Sequence[str], template: Template, *, max_length: int | None = None
    ) -> list[list[int]]:
        """Tokenize each sentence into word pieces, without special ones.

        Args:
            sentences: any number of sentences.
            template: the template that will surround them.
            max_length: sentences are truncated so that a row is no longer than this; None is the
                model's limit.

        Raises:
            BackboneError: if the template leaves no room for a sentence.
        """
        if not sentences:
            return []
        longest = min(max_length or self.limit, self.limit)
        template.refuse_no_room(longest)
        ids = self.tokenizer(
            [template.text(sentence) for sentence in sentences],
            add_special_tokens=False,
            truncation=True,
            max_length=longest - len(template),
            return_attention_mask=False,
        )
        return list(ids["input_ids"])

    def pad(self, rows: Sequence[list[int]]) -> dict[str, Tensor]:
        """Make the input of `forward`, padded to the longest row.

        Args:
            rows: B >= 1 rows of word pieces, special ones included.

        Returns:
            On the encoder's device, `input_ids` and `attention_mask`, each of shape (B, L), and
            `pieces`, the indices of the T word pieces among the B * L places, shape (T,). Token
            types are left out: a single sentence only has the first, and some families have none.
        """
        lengths = torch.tensor([len(row) for row in rows])
        mask = torch.arange(max(map(len, rows))) < lengths[:, None]
        ids = torch.full(mask.shape, self.tokenizer.pad_token_id)
        ids[mask] = torch.tensor([piece for row in rows for piece in row])
        # Computed on the CPU: if the mask were on a GPU, the host would have to wait for it.
        pieces = mask.flatten().nonzero().squeeze(1)
        inputs = {"input_ids": ids, "attention_mask": mask.long(), "pieces": pieces}
        return {name: send_tensor(value, self.device) for name, value in inputs.items()}

    def forward(self, inputs: Mapping[str, Tensor], *, edits: Edits = UNEDITED) -> Tensor:
        """Encode the output of `pad` to embeddings of shape (B, D), float32, before any head.

        Raises:
            BackboneError: if the edits do not fit the rows or the model.
        """
        embeddings = self._encode_pooled(inputs, edits)
        for layer in self.post_pooling:
            embeddings = layer(embeddings)
        return embeddings

    def encode(self, sentences: Sequence[str], *, max_length: int | None = None) -> Tensor:
        """Encode N sentences as at test time: in the encoder's template, no dropout, no gradient.

        Each distinct sentence is encoded once; `max_length` is as for `pieces`.

        Returns:
            Shape (N, D), float32, on the CPU.
        """
        row_of = {sentence: row for row, sentence in enumerate(dict.fromkeys(sentences))}
        vectors = self.encode_rows(self.rows(list(row_of), max_length=max_length))
        return vectors[[row_of[sentence] for sentence in sentences]]

    def rows(self, sentences: Sequence[str], *, max_length: int | None = None) -> list[list[int]]:
        """Return the word pieces of each sentence at test time, special ones included."""
        contents = self.pieces(sentences, self.template, max_length=max_length)
        return [self.template(content) for content in contents]

    def encode_rows(self, rows: Sequence[list[int]]) -> Tensor:
        """Encode N rows of word pieces as at test time: shape (N, D), float32, on the CPU."""
        if not rows:
            return torch.empty(0, self.width)
        indices, batches = zip(*self.batches(rows), strict=True)
        with memory_advice(f"it joins the vectors of {len(rows)} sentences"):
            vectors = torch.cat(batches).cpu()  # one copy: several would each wait for a batch
        return vectors[torch.tensor([index for own in indices for index in own]).argsort()]

    def batches(self, rows: Sequence[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
        """Encode rows of word pieces as at test time, in batches of similar length.

        The rows have their special pieces, as `pad` takes them. After each batch the module is in
        the same mode as before, training or evaluation.

        Yields:
            Indices into `rows`, and their vectors: shape (B, D), float32, on the encoder's device.
        """
        at_once = PIECES_AT_ONCE.get(self.device.type, PIECES_AT_ONCE["cpu"])
        for indices in batched_by_length([len(row) for row in rows], at_once=at_once):
            longest = max(len(rows[index]) for index in indices)
            doing = f"it encodes {len(indices)} sentences of at most {longest} word pieces at once"
            training = self.training
            try:
                with memory_advice(doing), torch.no_grad():
                    vectors = self.eval()(self.pad([rows[index] for index in indices])).float()
            finally:
                self.train(training)
            yield indices, vectors

    def save(self, folder: Path | str) -> None:
        """Write a folder from which `load_encoder` loads an encoder with the same vectors.

        The folder is created if it does not exist. It is in the format of sentence-transformers
        (release 6). That library gives the same vectors for the poolers `cls` and `avg`. It does
        not support the other poolers and refuses such a folder, which only `load_encoder` reads.
        """
        folder = Path(folder)
        # Calls of the tokenizer leave their truncation in it, which would change the saved file.
        self.tokenizer.backend_tokenizer.no_truncation()
        with quiet():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        write_format(
            folder,
            self.pooling,
            width=last_width(self.token_layers) or self.model.config.hidden_size,
            max_length=self.limit,
            model_options=self.family.options,
            token_layers=write_layers(folder, self.token_layers, first=1),
            post_pooling=write_layers(folder, self.post_pooling, first=2 + len(self.token_layers)),
        )

    def token_vectors(self, inputs: Mapping[str, Tensor], edits: Edits = UNEDITED) -> Tensor:
        """Compute the pooler's input: the last layer's vectors after `token_layers`.

        Arguments and errors are those of `forward`.

        Returns:
            Shape (B, L, D), float32; vectors at padding are meaningless.
        """
        with edited(self.model, inputs, edits):
            vectors = self._compute_states(inputs, edits)[-1].float()
        for layer in self.token_layers:
            vectors = layer(vectors, inputs["attention_mask"])
        return vectors.float()

    def pool_tokens(self, vectors: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """Pool the output of `token_vectors`, shape (B, D).

        Raises:
            BackboneError: if the pooler reads more than the last layer.
        """
        _refuse_several_layers(self.pooling)
        return self._pool_states([vectors], inputs)

    def _encode_pooled(self, inputs: Mapping[str, Tensor], edits: Edits) -> Tensor:
        """Compute the pooled vector of each row, shape (B, D), float32."""
        if self.token_layers:
            return self.pool_tokens(self.token_vectors(inputs, edits), inputs)
        with edited(self.model, inputs, edits):
            # The last layer only has to be computed for one piece per row.
            whole = len(edits.layers) == self.model.config.num_hidden_layers
            bert_like = self._packs and self.family.bert_layers
            if bert_like and self.pooling.pooler in ("cls", "mask") and not whole:
                marked = self._find_masks(inputs["input_ids"])
                column = 0 if marked is None else marked
                positions = self._place_pieces(inputs, edits)
                return read_one_piece(self.model, inputs, column, positions).float()
            states = self._compute_states(inputs, edits)
        # Averaging in half precision would lose accuracy that the layers kept.
        return self._pool_states([state.float() for state in states], inputs)

    def _pool_states(self, states: Sequence[Tensor], inputs: Mapping[str, Tensor]) -> Tensor:
        """Pool the vectors of the layers that the pooler reads, with or without the prompt's."""
        mask = inputs["attention_mask"]
        if self.pooling.prompt and not self.pooling.include_prompt:
            columns = torch.arange(mask.shape[1], device=mask.device)
            mask = mask * (columns >= self._prompt_pieces)
        return pool(states, mask, self.pooling, marked=self._find_masks(inputs["input_ids"]))

    def _compute_states(self, inputs: Mapping[str, Tensor], edits: Edits) -> Sequence[Tensor]:
        """Compute word-piece vectors, shape (B, L, D), for each layer that the pooler reads."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        every_layer = self.pooling.pooler in _SEVERAL_LAYERS
        packs = self._packs and not any(layer.reads_padding for layer in self.token_layers)
        padded = len(inputs["pieces"]) < ids.numel()
        kernel = self.model.config._attn_implementation
        if packs and padded:
            positions = self._place_pieces(inputs, edits)
            return hidden_states(self.model, inputs, positions, every_layer=every_layer)
        # If the library got a mask that hides nothing, it would check it, and the host would wait.
        visible = None
        if padded:
            spreads = self.family.bert_layers and kernel in (PACKED, "sdpa")
            visible = spread_mask(mask) if spreads else mask
        given = {
            "attention_mask": visible,
            "output_hidden_states": every_layer,
            "return_dict": True,  # whatever the configuration says
        }
        if edits.positions is not None:
            # As in RoBERTa, padding has the row before the first position, if there is such a row.
            padding = max(0, self.first_position - 1)
            rows = torch.full((ids.numel(),), padding, device=ids.device)
            rows[inputs["pieces"]] = self._place_pieces(inputs, edits)
            given["position_ids"] = rows.view_as(ids)
        output = self.model(ids, **given)
        return output.hidden_states if every_layer else [output.last_hidden_state]

    def _place_pieces(self, inputs: Mapping[str, Tensor], edits: Edits) -> Tensor:
        """Compute the row in the position table of each word piece, shape (T,)."""
        first = self.first_position
        if first and edits.positions is None:
            # As the library counts them: the padding's piece is passed over in a sentence, too.
            counted = inputs["input_ids"] != first - 1
            rows = counted.cumsum(dim=1) * counted + (first - 1)
            return rows.flatten()[inputs["pieces"]]
        positions = self.model.config.max_position_embeddings - first
        return first + piece_positions(inputs, edits, lowest=-first, limit=positions)

    def _find_masks(self, ids: Tensor) -> Tensor | None:
        """Find the index of the last mask in each row: earlier ones belong to the sentence."""
        if self.pooling.pooler != "mask":
            return None
        masks: Tensor = ids == self.tokenizer.mask_token_id
        from_the_end = masks.flip(1).int().argmax(dim=1)
        return ids.shape[1] - 1 - from_the_end


def _refuse_several_layers(pooling: Pooling) -> None:
    if pooling.pooler in _SEVERAL_LAYERS:
        raise BackboneError(
            f"the pooler {pooling.pooler} reads several layers of the model, and here the vectors "
            "of word pieces are those of the last one; take the pooler avg, cls or mask"
        )


def pool(
    hidden_states: Sequence[Tensor], mask: Tensor, pooling: Pooling, *, marked: Tensor | None = None
) -> Tensor:
    """Pool the vectors of word pieces to one vector per sentence, before any head.

    Args:
        hidden_states: the embeddings and the output of every layer, each of shape (B, L, D);
            `cls`, `avg` and `mask` only need the last one.
        mask: 1 for word pieces, special ones included, 0 for padding, shape (B, L).
        pooling: which pieces of which layers are averaged.
        marked: for `mask`, the index of the [MASK] piece in each row, shape (B,).

    Returns:
        Shape (B, D).
    """
    if pooling.pooler == "mask":
        assert marked is not None
        return hidden_states[-1][torch.arange(len(marked), device=marked.device), marked]
    if pooling.pooler == "cls":
        return hidden_states[-1][:, 0]
    if pooling.pooler == "avg":
        tokens = hidden_states[-1]
    elif pooling.pooler == "avg_top2":
        tokens = (hidden_states[-1] + hidden_states[-2]) / 2
    else:
        tokens = (hidden_states[pooling.first_layer] + hidden_states[-1]) / 2
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1)
