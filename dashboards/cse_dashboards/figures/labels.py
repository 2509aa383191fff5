"""What rows and trials are called in figures: by what differs, and never by a hash alone."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cse_dashboards.figures.naming import values_line
from cse_methods.names import backbone_name, method_name
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.trial import TrialSummary
from cse_platform.render.formats import HASH_DIGITS

MOST_VALUES = 5
"""Hyperparameters in a label: more fill a legend's line."""


class TrialNote(NamedTuple):
    """What a figure says of a trial under the mouse, and where its page is."""

    key: str
    """As many digits as name it."""
    text: str


TrialNotes = Mapping[str, TrialNote]
"""By the id of a point or line that stands for a trial."""


HOVER = "%{text}<extra></extra>"
"""Of points and lines that stand for trials: the trial's note, which the page fills in."""


def search_notes(trials: Iterable[TrialSummary], factor: float) -> dict[str, TrialNote]:
    """By number: its score times `factor`, and the hyperparameters that the sweep searched."""
    return {str(one.number): TrialNote(one.key[:HASH_DIGITS], _text(one, factor)) for one in trials}


def _text(trial: TrialSummary, factor: float) -> str:
    seed = "" if trial.role == "search" else f", seed {trial.seed}"
    value = "" if trial.value is None else f": {factor * trial.value:.2f}"
    return f"trial {trial.number}{seed}{value}<br>{values_line(trial.values)}"


def curve_notes(keys: Mapping[str, Mapping[int, str]]) -> dict[str, TrialNote]:
    """Of the trials behind curves, by label and seed: by their keys as `TrialNote` has them."""
    notes = (
        TrialNote(key[:HASH_DIGITS], f"{label}, seed {seed}")
        for label, seeds in keys.items()
        for seed, key in seeds.items()
    )
    return {note.key: note for note in notes}


def labelled_rows(rows: Sequence[LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """By method, backbone and hyperparameters: by those that it takes to tell the rows apart."""
    several = {
        name: len({one(row) for row in rows}) > 1
        for name, one in (("method", _method), ("backbone", _backbone))
    }
    differing = _differing(rows)
    labels = []
    for row in rows:
        parts = [
            _method(row) if several["method"] or not differing[row.shown_method] else "",
            _backbone(row) if several["backbone"] else "",
            values_line(differing[row.shown_method].get(row.configuration.hash, {})),
        ]
        labels.append(" ".join(filter(None, parts)) or _method(row))
    numbered = [
        f"{label} ({labels[: place + 1].count(label)})" if labels.count(label) > 1 else label
        for place, label in enumerate(labels)
    ]
    return dict(zip(numbered, rows, strict=True))


def _method(row: LeaderboardRow) -> str:
    return method_name(row.shown_method)


def _backbone(row: LeaderboardRow) -> str:
    return backbone_name(row.shown_backbone)


def _differing(rows: Sequence[LeaderboardRow]) -> dict[str, dict[str, dict[str, Any]]]:
    """By method and configuration, the values of what differs among a method's rows."""
    by_method: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        by_method[row.shown_method][row.configuration.hash] = row.configuration.values
    return {
        method: {
            own: {name: values[name] for name in _names(found.values()) if name in values}
            for own, values in found.items()
        }
        if len(found) > 1
        else {}
        for method, found in by_method.items()
    }


def _names(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of the first few hyperparameters that have several values."""
    every = list(found)
    names = dict.fromkeys(name for values in every for name in values)
    varying = [name for name in names if len({repr(one.get(name)) for one in every}) > 1]
    return varying[:MOST_VALUES]
