"""How rows, trials and quantities look in figures: names, units, colours, and caption notes."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from cse_dashboards.figures.picture import PALETTE, Picture, TrialNotes, file_name
from cse_methods.data.dev_selection import parse_width_metric, sets_in
from cse_methods.names import backbone_name, hyperparameter_name, method_name, task_name
from cse_methods.tasks import AVG_TRANSFER, LONG_TASKS, MAIN_SCORE, TRANSFER_TASKS
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.published.matching import PAPERS, source_of
from cse_platform.leaderboard.records import BUILTIN, OWN_FILE, Estimate, LeaderboardRow, Trial
from cse_platform.numbers import HASH_DIGITS
from cse_platform.presentation.board_columns import shown_dev_set
from cse_platform.tracking.events import RECORDED

_METRICS = {
    "kcc": "KCC",
    "ndcg": "NDCG",
    "spearman": "Spearman",
    "clean": "Spearman on clean rows",
    "accuracy": "accuracy",
    "mean": "mean",
}
_CLASSIFIED = (*TRANSFER_TASKS, *LONG_TASKS, AVG_TRANSFER, "transfer_dev")
"""Tasks scored by accuracy; all others, including a lab's own sets, are scored by correlation."""
_DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""The titles of quantities by metric, and the colours of this package's methods, of which those of
the first papers are the palette's."""


@dataclass(frozen=True)
class Quantity:
    """The quantity of an axis."""

    title: str
    """The title of the axis, with the unit."""
    factor: float = 1.0
    """The factor from stored to drawn values."""

    @property
    def name(self) -> str:
        return self.title.removesuffix(" × 100")


def score_quantity(column: str, *, split: str = "test") -> Quantity:
    """Return the quantity of a column of scores, e.g. `stsb`, `avg_sts_kcc`, `mr`."""
    task, _, metric = column.rpartition("_")
    if ":" in column and metric != "mean":  # a task, whose kind is before its name
        title = column.removesuffix(f"_{MAIN_SCORE}")
        return Quantity(f"{title} {split}, main score × 100", 100.0)
    if not task or metric not in _METRICS:
        task, metric = column, "accuracy" if column in _CLASSIFIED else "spearman"
    sets = " + ".join(task_name(dev_set) for dev_set in sets_in(task))
    return Quantity(f"{sets} {split}, {_METRICS[metric]} × 100", 100.0)


def dev_quantity(task: str) -> Quantity:
    """Return the quantity a search climbs: `stsb`, `transfer_dev`, own sets, mean `stsb+sickr`."""
    mean = "_mean" * (len(sets_in(task)) > 1)
    return score_quantity(task + mean, split="dev")


def metric_quantity(metric: str) -> Quantity:
    """Return the quantity of a dev curve's metric, e.g. `dev/stsb_spearman`, `train/loss_rank`."""
    if (of_width := parse_width_metric(metric)) is not None:
        task, width = of_width
        return Quantity(f"{task_name(task)} dev, Spearman of {width} coordinates × 100", 100.0)
    split, _, name = metric.replace("test/builtin/", "test (built-in)/").partition("/")
    if name.rpartition("_")[2] in _METRICS or ":" in name:
        return score_quantity(name, split=split)
    if name.startswith("loss_"):
        return Quantity(f"training loss, {name.removeprefix('loss_')} part")
    return Quantity(_DATA["quantities"].get(metric, metric))


def number(value: float) -> str:
    """Format three significant digits, with powers of ten if small or large: `0.19`, `2.7e-4`."""
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, _, power = f"{value:.2e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def value_text(value: Any) -> str:
    """Format a hyperparameter's value; lists are joined, models and files shown by their names."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return number(value)
        case list() | tuple():
            return ", ".join(map(value_text, value)) or "none"
        case {"model": str(model), **others}:
            details = f" ({values_line(others)})" if others else ""
            return model.rstrip("/").rpartition("/")[2] + details
        case dict():
            return f"{{{values_line(value)}}}"
    return str(value)


def values_line(values: Mapping[Any, Any]) -> str:
    """Format hyperparameters on one line: `learning_rate=2.7e-4, γ=0.19`."""
    return ", ".join(f"{hyperparameter_name(str(n))}={value_text(v)}" for n, v in values.items())


STEP = "optimiser step"
"""The quantity that curves of training are over."""
MOST_VALUES = 5
"""Most hyperparameters in a label; more would overflow a line of the legend."""
HOVER = "%{text}<extra></extra>"
"""Hover template of points and lines of trials: their note, which the page fills in."""


def search_notes(trials: Iterable[Trial], factor: float) -> TrialNotes:
    """Make notes by trial number: the score times `factor`, and the searched hyperparameters."""
    notes = {}
    for trial in trials:
        seed = "" if trial.role == "search" else f", seed {trial.seed}"
        value = "" if trial.best_value is None else f": {factor * trial.best_value:.2f}"
        text = f"trial {trial.number}{seed}{value}<br>{values_line(trial.searched_values)}"
        notes[str(trial.number)] = trial.key[:HASH_DIGITS], text
    return notes


def labelled_rows(rows: Sequence[LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """Label rows by the method, backbone and hyperparameters that distinguish them."""
    by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_method[row.shown_method].append(row.configuration.values)
    varying: dict[str, list[str]] = {}
    for shown_method, several in by_method.items():
        names = dict.fromkeys(name for values in several for name in values)
        differ = [n for n in names if len({repr(values.get(n)) for values in several}) > 1]
        varying[shown_method] = differ[:MOST_VALUES]
    one_backbone = len({backbone_name(row.shown_backbone) for row in rows}) == 1
    labels: list[str] = []
    for row in rows:
        own, method = row.configuration.values, method_name(row.shown_method)
        differing = {name: own[name] for name in varying[row.shown_method] if name in own}
        parts = [
            method if len(by_method) > 1 or not differing else "",
            "" if one_backbone else backbone_name(row.shown_backbone),
            values_line(differing),
        ]
        labels.append(" ".join(filter(None, parts)) or method)
    numbered = [
        f"{label} ({labels[: index + 1].count(label)})" if labels.count(label) > 1 else label
        for index, label in enumerate(labels)
    ]
    return dict(zip(numbered, rows, strict=True))


_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon")


@dataclass(frozen=True)
class Style:
    """The colour, dash and symbol of a line, bar or marker."""

    colour: str
    further: int = 0
    """Index among lines of the same colour; above 0 it selects another dash and symbol."""

    @property
    def dash(self) -> str:
        return _DASHES[self.further % len(_DASHES)]

    @property
    def symbol(self) -> str:
        return _SYMBOLS[self.further % len(_SYMBOLS)]


def method_colours(methods: Iterable[str]) -> dict[str, str]:
    """Choose the colours of methods that are shown together, by name.

    Methods of this package have colours of their own. Each other method has the palette's colour
    that its name leads to, or the next one that none beside it has, as long as there are any.
    """
    names, own = sorted(set(methods)), _DATA["method_colours"]
    colours: dict[str, str] = {name: own[name] for name in names if name in own}
    for name in names:
        if name not in colours:
            first = int.from_bytes(sha256(name.encode()).digest()[:4]) % len(PALETTE)
            used = Counter(colours.values())
            colours[name] = min(PALETTE[first:] + PALETTE[:first], key=lambda free: used[free])
    return colours


def row_styles(labelled: Mapping[str, LeaderboardRow]) -> dict[str, Style]:
    """Style rows by label: the method's colour, with another dash for each further row of the
    colour.

    If all rows are of one method, each gets its own colour instead.
    """
    colours = method_colours(row.method for row in labelled.values())
    if len(colours) == 1 and len(labelled) > 1:
        return styles_in_order(labelled)
    before: Counter[str] = Counter()
    styles = {}
    for label, row in labelled.items():
        colour = colours[row.method]
        styles[label] = Style(colour, before[colour])
        before[colour] += 1
    return styles


def styles_in_order(labels: Iterable[str]) -> dict[str, Style]:
    """Assign colours in order to labels that are not methods: seeds, tasks, configurations."""
    return {
        label: Style(PALETTE[index % len(PALETTE)], index // len(PALETTE))
        for index, label in enumerate(labels)
    }


Encoded = Literal["heat_map", "projection", "spread", "diversity", "buckets_stsb_dev", "case_study"]
ENCODED: dict[Encoded, str] = {
    "heat_map": "Similarity of sentences",
    "projection": "Sentences by length",
    "spread": "Sentences on the sphere",
    "diversity": "Positives before and after whitening",
    "buckets_stsb_dev": "Cosines by gold score, STS-B dev",
    "case_study": "Ranking case study",
}
"""The titles of the figures that need models, by their names in addresses and files."""
Rows = Sequence[LeaderboardRow]
MOST_COLOURS = len(PALETTE)
PANELS = 4
"""Most rows in a figure with a panel per row."""
SENTEVAL = "SentEval data"
TO_EVALUATE = "in a sweep file, or cse-evaluate TRIAL --tasks"


def first_rows(rows: Rows, most: int = MOST_COLOURS) -> tuple[Mapping[str, LeaderboardRow], str]:
    """Label the first rows, as many as there are colours. Also returns a caption note."""
    left = f" The first {most} of {len(rows)} rows are shown." if len(rows) > most else ""
    return labelled_rows(rows[:most]), left


def trials_with_models(reader: Leaderboard, rows: Rows) -> dict[str, str]:
    """Return the best trial on dev that kept its model, by label, of the first rows that have one,
    as many as there are panels.
    """
    kept = reader.kept_models(key for row in rows for key in row.keys.values())
    reduced = [
        replace(row, keys={seed: key for seed, key in row.keys.items() if key in kept})
        for row in rows
    ]
    labelled = labelled_rows([row for row in reduced if row.keys][:PANELS])
    return {label: row.best_trial for label, row in labelled.items() if row.best_trial}


def left_out(requested: Iterable[str], shown: Mapping[str, object], what: str) -> str:
    """Format a caption note that lists the requested labels without data."""
    absent = [label for label in requested if label not in shown]
    return f" Without {what}, and left out: {'; '.join(absent)}." if absent and shown else ""


def data_of(row: LeaderboardRow, score: Estimate | None = None) -> str:
    """Name the data of a row's score, by default on dev. Scores on different data are in separate
    figures; those of recorded runs are known to be on the same data within a sweep alone.
    """
    source = row.dev.source if score is None else source_of(score, row.dev)
    names = {BUILTIN: "built-in data", RECORDED: f"data of {row.sweep}", "": "unknown data"}
    return SENTEVAL if source in PAPERS else names.get(source, f"{source} data")


def dev_data(row: LeaderboardRow) -> str:
    """Name the data of a dev score; each of a lab's own dev sets counts as different data."""
    return shown_dev_set(row) if row.dev.source == OWN_FILE else data_of(row)


def best_scored_trial(row: LeaderboardRow, task: str) -> str | None:
    """Return the key of a row's best seed on dev among those that are scored on a task."""
    scored = row.scores[task].values if task in row.scores else {}
    best = max(scored, key=lambda seed: row.dev_values[seed], default=None)
    return None if best is None else row.keys[best]


def picture_per_data(data: Iterable[str], draw: Callable[[str], Picture]) -> list[Picture]:
    """Make a picture for each data source; if there are several, their titles name the sources.

    `data` has the name of each row's data, from `data_of`; `draw` makes the picture for one name.
    """
    several = list(dict.fromkeys(data)) or [SENTEVAL]
    if len(several) == 1:
        return [draw(several[0])]
    pictures = []
    for source in several:
        picture = draw(source)
        name, title = f"{picture.name}_{file_name(source)}", f"{picture.title}, {source}"
        about = f"Rows on {source} only: scores on other data are in a figure of their own. "
        pictures.append(replace(picture, name=name, title=title, caption=about + picture.caption))
    return pictures


def picture_per_dev_data(rows: Rows, draw: Callable[[Rows], Picture]) -> list[Picture]:
    """Make a picture for each source of dev data, like `picture_per_data`."""
    return picture_per_data(
        map(dev_data, rows), lambda data: draw([row for row in rows if dev_data(row) == data])
    )
