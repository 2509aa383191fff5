"""Packs an evaluation as an event of the journal, with its arrays as text.

Packed text is base64 of zlib of little-endian numbers; the leaderboard stores only the zlib part.
"""

import zlib
from base64 import b64decode, b64encode
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.source import source_name
from cse_methods.tasks import Tasks
from cse_platform.errors import StoreLostError
from cse_platform.tracking import events
from cse_platform.tracking.provenance import user_and_host

if TYPE_CHECKING:  # readers of the journal must not import code that opens test sets
    from cse_methods.evaluation.results import Evaluation, Examples


MOST_EXAMPLES = 2**22
"""Examples of a task, whose values fill a line of a journal."""


def pack(values: NDArray[np.floating[Any]]) -> str:
    """Pack numbers as text, lossless and in their own precision."""
    little_endian = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return b64encode(zlib.compress(little_endian.tobytes())).decode()


def compressed(packed: str) -> bytes:
    """Return the zlib data within a packed text."""
    return b64decode(packed, validate=True)


def unpack_values(compressed: bytes) -> NDArray[np.float32]:
    """Unpack values, shape (examples,), from the zlib of little-endian float32."""
    return np.frombuffer(_decompress(compressed, 4 * MOST_EXAMPLES), "<f4").astype(np.float32)


def unpack_gold(compressed: bytes) -> NDArray[np.float64]:
    """Unpack gold scores, shape (examples,), from the zlib of little-endian float64."""
    return np.frombuffer(_decompress(compressed, 8 * MOST_EXAMPLES), "<f8").astype(np.float64)


def _decompress(compressed: bytes, most: int) -> bytes:
    """Unpack zlib data. Raises StoreLostError if it is damaged, or unpacks to more bytes."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(compressed, most + 1)
    except zlib.error as error:
        raise StoreLostError(f"packed numbers are damaged ({error})") from error
    if len(content) > most or not unpacking.eof:
        raise StoreLostError(f"packed numbers are torn, or of more than {MOST_EXAMPLES} examples")
    return content


def compress_examples(examples: events.PackedExamples) -> tuple[bytes, bytes | None, int]:
    """Return the zlib data of the values and of the gold scores, and the number of examples.

    Raises ValueError or StoreLostError if they are damaged, of different numbers of examples, or
    there are gold scores for a mean.
    """
    values, gold = compressed(examples.values), None
    counts = [len(unpack_values(values))]
    if examples.gold is not None:
        gold = compressed(examples.gold)
        counts.append(len(unpack_gold(gold)))
    counts.append(sum(examples.subsets.values()))
    if len(set(counts)) > 1:
        raise ValueError(
            f"{examples.task}: values, gold scores and examples of the subsets must be as many, "
            f"got {', '.join(map(str, counts))}"
        )
    if (gold is None) != (examples.statistic == "mean"):
        got = "no gold scores" if gold is None else "gold scores"
        raise ValueError(
            f"{examples.task}: expected gold scores, except for a mean; the statistic is "
            f"{examples.statistic}, with {got}"
        )
    return values, gold, counts[0]


def make_test_accesses(
    tasks: Tasks,
    data: str | None,
    *,
    sweep: str,
    trial: str,
    command: Literal["cse-sweep", "cse-evaluate"],
) -> list[events.TestAccessed]:
    """Make the events of test sets that are about to be opened for a trial: one for each source.

    A lab's own files are of the source `file`, whatever `data` is, and tasks of mteb of the source
    `hub`. There is no event if only the geometry is measured, which opens no test set.
    """
    source = source_name(data)
    files = tuple(reference for reference in tasks.referenced if reference.is_own)
    fetched = tuple(reference for reference in tasks.referenced if not reference.is_own)
    parts: dict[events.TestSource, Tasks] = {
        source: replace(tasks, own=(), referenced=fetched if source == "hub" else ()),
        "file": Tasks(own=tasks.own, referenced=files),
    }
    if source != "hub":
        parts["hub"] = Tasks(referenced=fetched)
    return [
        events.TestAccessed(
            sweep=sweep,
            trial=trial,
            tasks=part.names,
            source=source,
            who=user_and_host(),
            command=command,
        )
        for source, part in parts.items()
        if part.opens_tests
    ]


def evaluation_event(
    *, sweep: str, trial: str, evaluation: "Evaluation", source: str, settings: str = ""
) -> events.TrialEvaluated:
    """Convert an evaluation of a trial's kept checkpoint to an event of the journal.

    `source` is the source of the data: `builtin`, `hub` or `senteval`. `settings` are those of the
    sweep's evaluation; with other settings, it is a different evaluation. Raises ValueError if a
    task has different numbers of values, gold scores and examples in its subsets.
    """
    return events.TrialEvaluated(
        sweep=sweep,
        trial=trial,
        tasks=tuple(sorted(evaluation.tasks)),
        settings=settings,
        source=source,
        scores=tuple(
            events.TrialScore(**{**asdict(score), "value": float(score.value)})
            for score in evaluation.scores
        ),
        examples=tuple(map(_pack_examples, evaluation.examples)),
        identities={identity: dict(parts) for identity, parts in evaluation.identities.items()},
        seconds=dict(evaluation.seconds),
    )


def _pack_examples(examples: "Examples") -> events.PackedExamples:
    gold = None if examples.gold is None else pack(examples.gold.astype(np.float64))
    changed = {"values": pack(examples.values.astype(np.float32)), "gold": gold}
    packed = events.PackedExamples.model_validate({**vars(examples), **changed})
    compress_examples(packed)  # raises for different numbers
    return packed
