"""How mini was made: masked-language modelling on raw sentences, here 75 minutes on two CPU cores.

    python pretrain.py CORPUS OUTPUT_FOLDER MINUTES

The learning rate follows the clock, so that a run ends where it should on any machine; hence it
cannot be repeated bit for bit. 7,998 steps of 96 sentences were made, 25.0 M tokens (3.9 passes
over the corpus); the final running loss was 4.07 nats per masked piece. Afterwards the position
table was grown from 128 to 512 rows (0-63 as trained, the rest drawn from N(0, 0.02)), the pooler
and the language-model head were dropped, and the weights stored as float16.
"""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

VOCABULARY, WIDTH, LAYERS, HEADS = 8192, 192, 3, 3
BATCH, PEAK_RATE, WARMUP_STEPS, MASKED_SHARE = 96, 1e-3, 300, 0.2
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Lower-cased word pieces with [CLS] and [SEP] around each sentence."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=list(SPECIAL_TOKENS), min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, output: Path) -> None:
    names = {f"{name.strip('[]').lower()}_token": name for name in SPECIAL_TOKENS}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names)
    wrapped.save_pretrained(output)


def length_batches(ids: list[list[int]]) -> Iterator[Tensor]:
    """One pass: batches of sentences of similar length, in random order, shape (BATCH, L)."""
    order = list(range(len(ids)))
    random.shuffle(order)
    for start in range(0, len(order), BATCH * 50):
        group = sorted(order[start : start + BATCH * 50], key=lambda i: len(ids[i]))
        parts = [group[i : i + BATCH] for i in range(0, len(group), BATCH)]
        random.shuffle(parts)
        for part in parts:
            width = max(len(ids[i]) for i in part)
            yield torch.tensor([ids[i] + [0] * (width - len(ids[i])) for i in part])


def mask(tokens: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    """The tokens as the model sees them, and which of them it has to guess."""
    special = tokens < len(SPECIAL_TOKENS)
    picked = (torch.rand(tokens.shape) < MASKED_SHARE) & ~special
    draw, masked = torch.rand(tokens.shape), tokens.clone()
    masked[picked & (draw < 0.8)] = mask_id
    replaced = picked & (draw >= 0.9)
    masked[replaced] = torch.randint(len(SPECIAL_TOKENS), VOCABULARY, (int(replaced.sum()),))
    return masked, picked


def new_model() -> BertForMaskedLM:
    """A random BERT of our size, in training mode."""
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=128,
    )
    model = BertForMaskedLM(config)
    model.train()
    return model


def train(model: BertForMaskedLM, ids: list[list[int]], mask_id: int, *, minutes: float) -> None:
    """Train by the clock; the model is changed in place."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01
    )
    started, step = time.monotonic(), 0
    while True:
        for tokens in length_batches(ids):
            done = (time.monotonic() - started) / (60 * minutes)
            if done >= 1:
                return
            for group in optimizer.param_groups:
                group["lr"] = PEAK_RATE * min(1, step / WARMUP_STEPS) * max(0.02, 1 - done)
            masked, picked = mask(tokens, mask_id)
            hidden = model.bert(masked, attention_mask=tokens.ne(0).long()).last_hidden_state
            loss = F.cross_entropy(model.cls(hidden[picked]), tokens[picked])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1


def main(corpus: Path, output: Path, minutes: float) -> None:
    """Make tokenizer and model from a text file, a sentence a line."""
    torch.manual_seed(0)
    random.seed(0)
    texts = [line.strip() for line in corpus.read_text("utf-8").splitlines() if line.strip()]
    tokenizer = train_tokenizer(texts)
    save_tokenizer(tokenizer, output)
    ids = [encoded.ids[:64] for encoded in tokenizer.encode_batch(texts)]
    model = new_model()
    train(model, ids, SPECIAL_TOKENS.index("[MASK]"), minutes=minutes)
    model.save_pretrained(output)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
