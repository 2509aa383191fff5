"""Cuts sentences into segments of at most a number of word pieces, so that no text is lost."""

from collections.abc import Iterator, Sequence
from typing import Any

from cse_methods.encoders.backbones import explain_foreign, fetch_backbone, resolve_backbone
from cse_methods.errors import BackboneError

_CHUNK = 4096
"""Number of sentences tokenised at once; it bounds the memory for their offsets."""

Offsets = Sequence[tuple[int, int]]


def cut_sentences(sentences: Sequence[str], tokenizer: Any, *, length: int) -> Iterator[str]:
    """Yield the sentences in order; long ones are cut into consecutive segments of their text.

    A segment has at most `length` word pieces, special ones included, when it is tokenised alone;
    only a single character of more pieces is left whole. Segments are as long as possible, and
    begin at the start of a word where they can, because the rest of a word would be read as another
    word. Only white space between segments is lost.

    ValueError if the length leaves no room beside the special pieces.
    Source:
        The corpus of Wu et al. 2023 (HiCL), table 6. The paper does not say where a word is cut.
    """
    special = tokenizer.num_special_tokens_to_add()
    if length <= special:
        raise ValueError(f"length must be more than the {special} special pieces, got {length}")
    for start in range(0, len(sentences), _CHUNK):
        chunk = sentences[start : start + _CHUNK]
        for segments in _cut_texts(chunk, tokenizer, room=length - special):
            yield from segments


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a backbone, which is fetched if needed.

    BackboneError if the backbone is unknown, cannot be fetched or has whole words instead of word
    pieces, or if its tokenizer cannot be loaded or gives no offsets of its pieces.
    """
    from cse_methods.encoders.reading import read_tokenizer

    folder = fetch_backbone(resolve_backbone(name))
    if explain_foreign(folder):
        raise BackboneError(
            f"encoder {name!r} has no word pieces that are read here; count in those of "
            "another, or leave split_at out"
        )
    return read_tokenizer(folder, name)


def _cut_texts(texts: Sequence[str], tokenizer: Any, *, room: int) -> list[list[str]]:
    """Return the segments of each text."""
    offsets = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_offsets_mapping=True,
        return_attention_mask=False,
        verbose=False,
    )["offset_mapping"]
    segments = [_split_text(text, own, room) for text, own in zip(texts, offsets, strict=True)]
    new = [segment for own in segments if len(own) > 1 for segment in own]
    if not new:
        return segments
    # Alone, a segment can have more pieces than it had inside its sentence.
    again = iter(_cut_texts(new, tokenizer, room=room))
    return [
        [part for _ in own for part in next(again)] if len(own) > 1 else own for own in segments
    ]


def _split_text(text: str, offsets: Offsets, room: int) -> list[str]:
    """Split a text into runs of at most `room` of its word pieces."""
    starts = [0]
    first = 0
    while len(offsets) - first > room:
        first = _find_next_cut(text, offsets, first, room)
        if first == len(offsets):
            break
        starts.append(offsets[first][0])
    parts = [text[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return [part for part in parts if part]


def _find_next_cut(text: str, offsets: Offsets, first: int, room: int) -> int:
    """Return the first piece of the segment after the one that begins with piece `first`."""

    def starts_new_character(piece: int) -> bool:
        # The bytes of one character can be several pieces with the same offsets.
        return offsets[piece][0] >= offsets[piece - 1][1]

    inside = [piece for piece in range(first + 1, first + room + 1) if starts_new_character(piece)]
    starts = {piece: offsets[piece][0] for piece in inside}
    words = [p for p in inside if text[starts[p]].isspace() or text[starts[p] - 1].isspace()]
    if inside:
        return (words or inside)[-1]
    beyond = range(first + room + 1, len(offsets))
    return next((piece for piece in beyond if starts_new_character(piece)), len(offsets))
