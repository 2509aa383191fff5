"""A method and its settings as text, for the tables that people read."""

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from cse_methods.config import MethodConfig, TrainingConfig, TwoViewConfig
from cse_methods.contract import Method, Paper, PublishedSettings
from cse_methods.entry_points import blame
from cse_methods.errors import BrokenMethodError
from cse_methods.published.tables import Departure, departures
from cse_methods.registry import own_methods
from cse_methods.setting_text import choices_of, kind_of, yaml_text

_SHARED = {
    TwoViewConfig: "Settings of every method with two views",
    TrainingConfig: "Settings of every method that trains",
    MethodConfig: "Settings of every method",
}


@dataclass(frozen=True)
class SettingRow:
    """One setting as text; empty where there is nothing to say."""

    name: str
    symbol: str
    """The paper's."""
    kind: str
    """What it takes, with its bounds."""
    default: str
    only_with: str
    """The values of other settings beside which alone it has an effect."""
    description: str
    source: str
    """Where the paper has it."""


@dataclass(frozen=True)
class SettingGroup:
    title: str
    rows: tuple[SettingRow, ...]


@dataclass(frozen=True)
class PublishedColumn:
    backbone: str
    variant: str
    values: Mapping[str, str]
    """The settings that differ between the columns."""
    source: str
    note: str
    """What it is if it is not the authors' whole setup; a sentence."""


@dataclass(frozen=True)
class SearchedSetting:
    name: str
    space: str
    columns: str
    """For which columns of its table."""


@dataclass(frozen=True)
class Description:
    """A method: its paper, its settings, and what the paper chose."""

    name: str
    paper: Paper
    summary: str
    notes: tuple[str, ...]
    """Paragraphs: where it comes from, and where it departs from that."""
    groups: tuple[SettingGroup, ...]
    """Its own settings first; each setting is in one of them."""
    columns: tuple[PublishedColumn, ...]
    throughout: Mapping[str, str]
    """The published values that all columns share."""
    searched: tuple[SearchedSetting, ...]
    departures: tuple[Departure, ...]
    """Where the shipped sweep files of its paper's tables differ from the paper."""


def describe_method(method: Method) -> Description:
    """Describe what there is to know about a method and its settings.

    BrokenMethodError if the method is another package's and its settings raise anything.
    """
    try:
        return _make_description(method)
    except Exception as problem:
        if method.name in own_methods():
            raise
        raise BrokenMethodError(
            f"method {method.name!r} cannot be described: {blame(problem, method.train.__module__)}"
        ) from problem


def _make_description(method: Method) -> Description:
    # Lines are joined; one that begins `Paper:` or `Departs from …:` begins a paragraph.
    text = inspect.getdoc(sys.modules[method.train.__module__]) or ""
    parts = re.split(r"\n\n+|\n(?=[A-Z][^.:\n]*: )", text)
    summary, *notes = (" ".join(part.split()) for part in parts)
    first, *others = [column.settings for column in method.published] or [{}]
    throughout = {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }
    variants = [set(column.variant) for column in method.published]
    left_out = {*throughout, *set.intersection(*variants)} if variants else set()
    return Description(
        name=method.name,
        paper=method.paper,
        summary=summary,
        notes=tuple(notes),
        groups=tuple(_group_settings(method)),
        columns=tuple(
            PublishedColumn(
                column.backbone,
                _format_variant(column),
                {n: yaml_text(value) for n, value in column.settings.items() if n not in left_out},
                column.source,
                column.note,
            )
            for column in method.published
        ),
        throughout={name: yaml_text(value) for name, value in throughout.items()},
        searched=tuple(_list_searched_settings(method.published)),
        departures=departures(method.name),
    )


def setting_rows(
    config: type[MethodConfig], published: Sequence[PublishedSettings] = ()
) -> list[SettingRow]:
    """Make a row for each setting, in order; published values show what defaults follow."""
    followed, rows = _find_followed_settings(config, published), []
    filled = config.dependent_defaults({})
    for name, field in config.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        value = filled.get(name, field.default)
        default = "required" if field.is_required() else yaml_text(value)
        if followed[name]:
            default += f"; follows {', '.join(followed[name])}"
        rows.append(
            SettingRow(
                name=name,
                symbol=str(extra.get("symbol", "")),
                kind=kind_of(config, name),
                default=default,
                only_with="; ".join(
                    f"{other}: {' or '.join(map(yaml_text, allowed))}"
                    if isinstance(allowed, tuple)
                    else f"{other}: {allowed}"
                    for other, allowed in config.conditions.get(name, {}).items()
                ),
                description=field.description or "",
                source=str(extra.get("source", "")),
            )
        )
    return rows


def _group_settings(method: Method) -> Iterator[SettingGroup]:
    """Group the settings: those of a shared class that a method leaves unchanged, and its own."""
    shared: dict[SettingRow, str] = {}
    for base, title in _SHARED.items():
        if issubclass(method.config, base):
            shared |= dict.fromkeys(setting_rows(base), title)
    own, of_base = f"Settings of {method.name}", f"Settings of {' and '.join(method.config.bases)}"
    without_base = method.config.specialise_for({}).model_fields
    groups: dict[str, list[SettingRow]] = {title: [] for title in (own, of_base, *_SHARED.values())}
    for row in setting_rows(method.config, method.published):
        groups[shared.get(row, own) if row.name in without_base else of_base].append(row)
    yield from (SettingGroup(title, tuple(rows)) for title, rows in groups.items() if rows)


def _find_followed_settings(
    config: type[MethodConfig], published: Sequence[PublishedSettings]
) -> dict[str, dict[str, None]]:
    """Map each setting to those that its default depends on, found by trying their values."""
    alone = config.dependent_defaults({})
    followed: dict[str, dict[str, None]] = defaultdict(dict)
    tried = [(name, choice) for name in config.model_fields for choice in choices_of(config, name)]
    tried += chain.from_iterable(column.settings.items() for column in published)
    for other, value in tried:
        defaults = config.dependent_defaults({other: value})
        for name in {*alone, *defaults} - {other}:
            if alone.get(name) != defaults.get(name):
                followed[name][other] = None
    return followed


def _format_variant(column: PublishedSettings) -> str:
    return ", ".join(f"{name}: {yaml_text(value)}" for name, value in column.variant.items())


def _list_searched_settings(published: Sequence[PublishedSettings]) -> Iterator[SearchedSetting]:
    by_setting: dict[str, dict[str, list[PublishedSettings]]] = {}
    for column in published:
        for name, space in column.searched.items():
            by_setting.setdefault(name, {}).setdefault(yaml_text(space), []).append(column)
    for name, spaces in by_setting.items():
        for text, columns in spaces.items():
            yield SearchedSetting(name, text, _name_columns(columns, published))


def _name_columns(
    chosen: Sequence[PublishedSettings], published: Sequence[PublishedSettings]
) -> str:
    """Name published columns by variant or backbone alone if that sets them apart, else by both."""
    if len(chosen) == len(published):
        return "all"
    for label in (_format_variant, lambda column: column.backbone):
        labels = list(dict.fromkeys(map(label, chosen)))
        if len(chosen) == sum(label(column) in labels for column in published):
            return "; ".join(labels)
    return "; ".join(f"{column.backbone} {_format_variant(column)}".strip() for column in chosen)
