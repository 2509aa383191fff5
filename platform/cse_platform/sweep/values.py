"""Values of hyperparameters: when two are equal, and how they are written."""

import json
import math
from typing import Any, TypeGuard

from cse_platform.nested import map_leaves


def canonical_json(value: Any) -> str:
    """Serialise a value so that equal values give equal texts; 1.0 equals 1, `true` does not."""

    def shorten(leaf: Any) -> Any:
        is_whole = isinstance(leaf, float) and leaf.is_integer() and abs(leaf) < 2**53
        return int(leaf) if is_whole else leaf

    value = map_leaves(value, shorten)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode(value: Any) -> Any:
    """Encode a value for Optuna: lists and mappings become JSON with sorted keys."""
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, tuple, dict)) else value


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a finite number; `true` is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
