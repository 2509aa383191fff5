"""Builds the pages of `cse-sweep describe`."""

import re
from collections.abc import Iterator, Sequence

from cse_methods.describe import Description, PublishedColumn, SettingRow
from cse_platform.render.page import Block, Heading, Page, Paragraph
from cse_platform.render.table import Table, text_table

GENERATED = "Written by `make docs`, which is `cse-sweep describe --markdown`; do not edit."


def methods_overview(descriptions: Sequence[Description]) -> Page:
    """Make a page with a line for each method."""
    rows = tuple((d.name, str(d.paper.year), d.summary) for d in descriptions)
    return [text_table(("method", "year", "in short"), rows, markup="markdown")]


def methods_reference(descriptions: Sequence[Description]) -> Page:
    """Make the full reference of the methods, with a note on how it was generated."""
    title = Heading("Methods and their settings", 1)
    return [
        title,
        Paragraph(GENERATED),
        *methods_overview(descriptions),
        *methods_page(descriptions),
    ]


def methods_page(descriptions: Sequence[Description]) -> Page:
    """Make a section for each method; settings that methods share are listed once, at the end."""
    blocks: list[Block] = []
    shared: dict[str, dict[SettingRow, None]] = {}
    for description in descriptions:
        own, *others = description.groups
        blocks += [
            *_make_paper_blocks(description),
            Heading(own.title, 3),
            _make_settings_table(own.rows),
        ]
        blocks += [*_make_published_blocks(description), *_make_departure_blocks(description)]
        for group in others:
            shared.setdefault(group.title, {}).update(dict.fromkeys(group.rows))
    for title, rows in shared.items():
        blocks += [Heading(title, 2), _make_settings_table(tuple(rows))]
    return blocks


def _make_paper_blocks(description: Description) -> Iterator[Block]:
    paper = description.paper
    yield Heading(description.name, 2)
    yield Paragraph(description.summary)
    yield Paragraph(f"“{paper.title}”, {paper.year}, {paper.url}")
    yield from map(Paragraph, description.notes)


def _make_settings_table(rows: Sequence[SettingRow]) -> Table:
    head = ("setting", "symbol", "takes", "default", "only with", "meaning", "source")
    cells = tuple(
        (r.name, r.symbol, r.kind, r.default, r.only_with, r.description, r.source) for r in rows
    )
    return text_table(head, cells, markup="markdown")


def _make_published_blocks(description: Description) -> Iterator[Block]:
    if not description.columns:
        return
    yield Heading(f"Published settings of {description.name}", 3)
    yield _make_columns_table(description.columns)
    if description.throughout:
        listed = ", ".join(f"{name}: {value}" for name, value in description.throughout.items())
        yield Paragraph(f"For all of these: {listed}.")
    for note in dict.fromkeys(column.note for column in description.columns if column.note):
        backbones = [column.backbone for column in description.columns if column.note == note]
        yield Paragraph(f"{', '.join(backbones)}: {note}")
    if description.searched:
        yield Heading(f"What the paper of {description.name} searched", 3)
        rows = tuple((s.name, s.space, s.columns) for s in description.searched)
        yield text_table(("setting", "space", "for"), rows, markup="markdown")


def _make_departure_blocks(description: Description) -> Iterator[Block]:
    if description.departures:
        yield Heading(f"Where the sweep files of the paper of {description.name} depart from it", 3)
    for departure in description.departures:
        named = ", ".join(re.sub(r"(?=\d)", " ", table, count=1) for table in departure.tables)
        yield Paragraph(f"{named.capitalize()}: {departure.text}")


def _make_columns_table(columns: Sequence[PublishedColumn]) -> Table:
    names = tuple(dict.fromkeys(name for column in columns for name in column.values))
    rows = tuple(
        (c.backbone, c.variant, *(c.values.get(name, "") for name in names), c.source)
        for c in columns
    )
    return text_table(("backbone", "variant", *names, "source"), rows, markup="markdown")
