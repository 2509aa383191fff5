"""Which scores can be compared: a hash of everything that makes a number beside the weights."""

import hashlib
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cse_methods.data.shared_sentences import Groups

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
"""Stands in the reading of an encoder where there are any."""


def score_identity(settings: Mapping[str, Any]) -> str:
    """sha256 of JSON with sorted keys, as hex digits."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def settings_of(
    task: str,
    *,
    reading: Mapping[str, Any],
    protocol: Mapping[str, Any],
    data_sha256: str,
    own: bool = False,
) -> dict[str, Any]:
    """Collect the settings whose hash is a score's identity; `own` says that a lab owns the file.

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


def settings_of_average(task: str, members: Sequence[str]) -> dict[str, Any]:
    """Collect the settings whose hash is the identity of a mean over tasks, by theirs."""
    return {"task": task, "protocol": {"mean over": sorted(members)}}


_ROWS_KEPT, _SIMILARITIES_OF = "rows kept", "similarities_of"


def settings_of_clean(
    settings: Mapping[str, Any], identity: str, left_out: NDArray[np.bool_]
) -> dict[str, Any]:
    """The same for the clean score of a task, from the settings and identity of its whole score.

    `left_out` has shape (pairs,). The rows that are kept are part of the protocol, as a packed mask
    without text: two clean scores can be compared if they are over the same rows, whichever dev
    sets chose the trials.
    """
    kept = b64encode(zlib.compress(np.packbits(~left_out).tobytes(), 9)).decode()
    protocol = {**settings["protocol"], _ROWS_KEPT: kept}
    return {**settings, "protocol": protocol, _SIMILARITIES_OF: identity}


def rows_of_clean(settings: Mapping[str, Any]) -> tuple[str, NDArray[np.intp]] | None:
    """The identity of the similarities behind a clean score, and the places of the rows kept.

    None of another score.
    """
    if _SIMILARITIES_OF not in settings:
        return None
    mask = zlib.decompress(b64decode(settings["protocol"][_ROWS_KEPT]))
    kept = np.flatnonzero(np.unpackbits(np.frombuffer(mask, np.uint8)))
    return settings[_SIMILARITIES_OF], kept


_GROUPS = "groups of pairs that share sentences"


def settings_of_groups(task: str, data_sha256: str, groups: Groups) -> dict[str, Any]:
    """The settings that hold the groups of a set's pairs, shape (pairs,), packed and without text.

    Whoever resamples the pairs later needs no test set for them.
    """
    packed = b64encode(zlib.compress(groups.astype("<i4").tobytes(), 9)).decode()
    return {"task": task, "data_sha256": data_sha256, _GROUPS: packed}


def groups_of_settings(settings: Mapping[str, Any]) -> Groups:
    """Unpack the groups of pairs, as of `settings_of_groups`."""
    packed = zlib.decompress(b64decode(settings[_GROUPS]))
    return np.frombuffer(packed, "<i4").astype(np.intp)
