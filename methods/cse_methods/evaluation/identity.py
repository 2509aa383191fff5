"""Identities of scores: hashes of everything except the weights that a score depends on."""

import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups
from cse_methods.errors import EvaluationError

STS_PROTOCOL = {
    "similarity": "cosine",
    "aggregation": "all pairs of a set in one list",
    "unscored pairs": "dropped",
}
RANKING_PROTOCOL = {
    "similarity": "cosine",
    "query": "a sentence in more than three pairs, on either side",
    "kcc": "Kendall's tau-b",
    "ndcg": "linear gain, log2 discount, whole list, mean over the orders of ties",
    "mean": "over queries alike; those whose labels or similarities are all equal are left out",
}
GEOMETRY_PROTOCOL = {
    "alignment": "pairs with gold > 4",
    "uniformity, effective rank, mean cosine": "every sentence of every pair",
}

TEXTS_IN_TRAINING = "test sets whose texts were trained on"
"""The key in an encoder's reading if it was trained on texts of test sets."""


def score_identity(settings: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of the settings as JSON with sorted keys, in hex digits."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def settings_of(
    task: str,
    reading: Mapping[str, Any],
    protocol: Mapping[str, Any],
    data_sha256: str,
    *,
    own: bool = False,
) -> dict[str, Any]:
    """Make the settings whose hash is a score's identity; `own` marks a lab's own file.

    `reading` is how the encoder reads a text: pooler, layers after it, truncation, lower-casing;
    `protocol` is how vectors become the score.
    """
    return {
        "task": task,
        "reading": dict(reading),
        "protocol": dict(protocol),
        "data_sha256": data_sha256,
        **({"source": "file"} if own else {}),
    }


_ROWS_KEPT, _SIMILARITIES_OF = "rows kept", "similarities_of"


def settings_of_clean(
    settings: Mapping[str, Any], identity: str, left_out: NDArray[np.bool_]
) -> dict[str, Any]:
    """Make the settings of a task's clean score from the settings and identity of its full score.

    `left_out` has shape (pairs,). The kept rows become part of the protocol, as a packed mask
    without text: two clean scores are comparable if they use the same rows, whichever dev sets
    selected the trials.
    """
    kept = b64encode(zlib.compress(np.packbits(~left_out).tobytes(), 9)).decode()
    protocol = {**settings["protocol"], _ROWS_KEPT: kept}
    return {**settings, "protocol": protocol, _SIMILARITIES_OF: identity}


def rows_of_clean(settings: Mapping[str, Any]) -> tuple[str, NDArray[np.intp]] | None:
    """Return the identity of the similarities behind a clean score, and the indices of kept rows.

    Returns None for any other score.
    """
    if _SIMILARITIES_OF not in settings:
        return None
    mask = _unpack_text(settings["protocol"][_ROWS_KEPT])
    kept = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8)))
    return settings[_SIMILARITIES_OF], kept


_GROUPS = "groups of pairs that share sentences"


def settings_of_groups(task: str, data_sha256: str, groups: Groups) -> dict[str, Any]:
    """Make the settings that hold the groups of a set's pairs, shape (pairs,), packed.

    They contain no text, so that pairs can be resampled later without the test set.
    """
    packed = b64encode(zlib.compress(groups.astype("<i4").tobytes(), 9)).decode()
    return {"task": task, "data_sha256": data_sha256, _GROUPS: packed}


def groups_of_settings(settings: Mapping[str, Any]) -> Groups:
    """Unpack the groups of pairs from the settings that `settings_of_groups` made."""
    return np.frombuffer(_unpack_text(settings[_GROUPS]), "<i4").astype(np.intp)


_MOST_BYTES = 2**24
"""Of a mask or groups, unpacked; text of others can unpack to any number."""


def _unpack_text(text: str) -> bytes:
    """Unpack what was packed as text. Raises EvaluationError if it is damaged or too large."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(b64decode(text), _MOST_BYTES)
    except (ValueError, TypeError, zlib.error) as error:
        raise EvaluationError(f"stored settings of an evaluation are damaged: {error}") from error
    if not unpacking.eof:
        raise EvaluationError(
            f"stored settings of an evaluation are torn, or unpack to more than {_MOST_BYTES} bytes"
        )
    return content
