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
from cse_platform.tracking.events import (
    PairSimilarities,
    TestAccessed,
    TestSource,
    TrialEvaluated,
    TrialScore,
)
from cse_platform.tracking.provenance import user_and_host

if TYPE_CHECKING:  # readers of the journal must not import code that opens test sets
    from cse_methods.evaluation.results import Evaluation, Examples


MOST_PAIRS = 2**22
"""Pairs of a task, whose cosines fill a line of a journal."""


def pack(values: NDArray[np.floating[Any]]) -> str:
    """Pack numbers as text, lossless and in their own precision."""
    little_endian = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return b64encode(zlib.compress(little_endian.tobytes())).decode()


def compressed(packed: str) -> bytes:
    """Return the zlib data within a packed text."""
    return b64decode(packed, validate=True)


def unpack_cosines(compressed: bytes) -> NDArray[np.float32]:
    """Unpack cosines, shape (pairs,), from the zlib of little-endian float32."""
    return np.frombuffer(_decompress(compressed, 4 * MOST_PAIRS), "<f4").astype(np.float32)


def unpack_gold(compressed: bytes) -> NDArray[np.float64]:
    """Unpack gold scores, shape (pairs,), from the zlib of little-endian float64."""
    return np.frombuffer(_decompress(compressed, 8 * MOST_PAIRS), "<f8").astype(np.float64)


def _decompress(compressed: bytes, most: int) -> bytes:
    """Unpack zlib data. Raises StoreLostError if it is damaged, or unpacks to more bytes."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(compressed, most + 1)
    except zlib.error as error:
        raise StoreLostError(f"packed numbers are damaged ({error})") from error
    if len(content) > most or not unpacking.eof:
        raise StoreLostError(f"packed numbers are torn, or of more than {MOST_PAIRS} pairs")
    return content


def compress_similarities(similarities: PairSimilarities) -> tuple[bytes, bytes, int]:
    """Return the zlib data of the cosines and of the gold scores, and the number of pairs.

    Raises ValueError or StoreLostError if they are damaged, or of different numbers of pairs.
    """
    cosines, gold = compressed(similarities.cosines), compressed(similarities.gold)
    count, pairs = len(unpack_cosines(cosines)), sum(similarities.subsets.values())
    _refuse_unlike_counts(similarities.task, count, len(unpack_gold(gold)), pairs)
    return cosines, gold, count


def make_test_accesses(
    tasks: Tasks,
    data: str | None,
    *,
    sweep: str,
    trial: str,
    command: Literal["cse-sweep", "cse-evaluate"],
) -> list[TestAccessed]:
    """Make the events of test sets that are about to be opened for a trial: one for each source.

    A lab's own files are of the source `file`, whatever `data` is, and tasks of mteb of the source
    `hub`. There is no event if only the geometry is measured, which opens no test set.
    """
    source = source_name(data)
    files = tuple(one for one in tasks.referenced if one.is_own)
    fetched = tuple(one for one in tasks.referenced if not one.is_own)
    parts: dict[TestSource, Tasks] = {
        source: replace(tasks, own=(), referenced=fetched if source == "hub" else ()),
        "file": Tasks(own=tasks.own, referenced=files),
    }
    if source != "hub":
        parts["hub"] = Tasks(referenced=fetched)
    return [
        TestAccessed(
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
) -> TrialEvaluated:
    """Convert an evaluation of a trial's kept checkpoint to an event of the journal.

    `source` is the source of the data: `builtin`, `hub` or `senteval`. `settings` are those of the
    sweep's evaluation; with other settings, it is a different evaluation. Raises ValueError if a
    task has different numbers of cosines, gold scores and pairs in its subsets.
    """
    return TrialEvaluated(
        sweep=sweep,
        trial=trial,
        tasks=tuple(sorted(evaluation.tasks)),
        settings=settings,
        source=source,
        scores=tuple(
            TrialScore(**{**asdict(score), "value": float(score.value)})
            for score in evaluation.scores
        ),
        similarities=tuple(
            _pack_similarities(pairs)
            for pairs in evaluation.examples
            if pairs.statistic == "spearman"
        ),
        identities={identity: dict(parts) for identity, parts in evaluation.identities.items()},
        seconds=dict(evaluation.seconds),
    )


def _refuse_unlike_counts(task: str, *counts: int) -> None:
    if len(set(counts)) > 1:
        raise ValueError(
            f"{task}: cosines, gold scores and pairs of the subsets must be as many, "
            f"got {', '.join(map(str, counts))}"
        )


def _pack_similarities(similarities: "Examples") -> PairSimilarities:
    assert similarities.gold is not None  # of Spearman's statistic
    pairs = sum(similarities.subsets.values())
    _refuse_unlike_counts(
        similarities.task, len(similarities.values), len(similarities.gold), pairs
    )
    return PairSimilarities(
        task=similarities.task,
        split=similarities.split,
        identity=similarities.identity,
        cosines=pack(similarities.values.astype(np.float32)),
        gold=pack(similarities.gold.astype(np.float64)),
        subsets=dict(similarities.subsets),
        data_sha256=similarities.data_sha256,
    )
