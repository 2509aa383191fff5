"""PCL's changes of a sentence's word pieces: shuffled, turned round, deleted, repeated.

Lists of ids without special pieces go in and come out; every draw is an argument.
"""

from collections.abc import Sequence


def shuffle_pieces(content: Sequence[int], order: Sequence[int]) -> list[int]:
    """The pieces in another order: piece i of the result is that at `order[i]`.

    Raises:
        ValueError: if the order is no permutation of the places.
    """
    if sorted(order) != list(range(len(content))):
        raise ValueError(f"expected an order of {len(content)} places, got {list(order)}")
    return [content[place] for place in order]


def reverse_pieces(content: Sequence[int]) -> list[int]:
    """The pieces from the last to the first."""
    return list(reversed(content))


def changed_pieces(count: int, rate: float) -> int:
    """How many of `count` pieces are deleted or repeated: their share, halves to the even."""
    return round(rate * count)


def delete_pieces(content: Sequence[int], choices: Sequence[int]) -> list[int]:
    """The content without some pieces, drawn one after another.

    Args:
        content: n pieces.
        choices: at most n places; the k-th is one of the n - k that are then left. The piece that
            goes is the first that is the same as the one at that place, as in the released code.
    """
    left = list(content)
    for place in choices:
        left.remove(left[place])
    return left


def insert_copies(
    content: Sequence[int], choices: Sequence[int], places: Sequence[int]
) -> list[int]:
    """The content with copies of some pieces, drawn one after another.

    Args:
        content: n pieces.
        choices: places of the pieces that are copied; the k-th is one of the n + k that there
            are then.
        places: the k-th copy stands before the piece at the k-th of these, from 0 to n + k.
    """
    longer = list(content)
    for choice, place in zip(choices, places, strict=True):
        longer.insert(place, longer[choice])
    return longer
