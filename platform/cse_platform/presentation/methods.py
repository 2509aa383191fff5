"""Builds the pages of `cse-sweep describe`."""

import re
from collections.abc import Iterator, Sequence

from cse_methods.describe import Description, SettingRow
from cse_platform.presentation.tables import Block, Heading, Page, Paragraph, Table, text_table


def methods_overview(descriptions: Sequence[Description]) -> Page:
    """Make a page with a line for each method."""
    rows = tuple((d.name, str(d.paper.year), d.summary) for d in descriptions)
    return [text_table(("method", "year", "in short"), rows)]


def methods_page(descriptions: Sequence[Description]) -> Page:
    """Make the pages of methods: settings first, then what the paper chose, departures last.

    Settings that methods share are listed once.
    """
    blocks: list[Block] = []
    shared: dict[str, dict[SettingRow, None]] = {}
    for description in descriptions:
        own, *others = description.groups
        paper = description.paper
        blocks += [
            Heading(description.name, 2),
            Paragraph(description.summary),
            Paragraph(f"“{paper.title}”, {paper.year}, {paper.url}"),
            _make_settings_table(own.rows),
            *_make_published_blocks(description),
        ]
        for group in others:
            shared.setdefault(group.title, {}).update(dict.fromkeys(group.rows))
    for title, rows in shared.items():
        blocks += [Heading(title, 2), _make_settings_table(tuple(rows))]
    for description in descriptions:
        if description.notes or description.departures:
            title = f"Where {description.name} comes from, and departs from that"
            blocks.append(Heading(title, 3))
        blocks += map(Paragraph, description.notes)
        for departure in description.departures:
            named = ", ".join(re.sub(r"(?=\d)", " ", table, count=1) for table in departure.tables)
            blocks.append(Paragraph(f"Sweep files of {named}: {departure.text}"))
    return blocks


def _make_settings_table(rows: Sequence[SettingRow]) -> Table:
    cells = []
    for row in rows:
        condition = f"only with {row.only_with}" if row.only_with else ""
        meaning = "; ".join(filter(None, (row.description, condition, row.source)))
        name = f"{row.name} ({row.symbol})" if row.symbol else row.name
        cells.append((name, row.kind, row.default, meaning))
    return text_table(("setting", "takes", "default", "meaning"), tuple(cells))


def _make_published_blocks(description: Description) -> Iterator[Block]:
    if not description.columns:
        return
    yield Heading(f"Published settings of {description.name}", 3)
    names = tuple(dict.fromkeys(name for column in description.columns for name in column.values))
    rows = tuple(
        (c.backbone, c.variant, *(c.values.get(name, "") for name in names), c.source)
        for c in description.columns
    )
    yield text_table(("backbone", "variant", *names, "source"), rows)
    if description.throughout:
        listed = ", ".join(f"{name}: {value}" for name, value in description.throughout.items())
        yield Paragraph(f"For all of these: {listed}.")
    for note in dict.fromkeys(column.note for column in description.columns if column.note):
        backbones = [column.backbone for column in description.columns if column.note == note]
        yield Paragraph(f"{', '.join(backbones)}: {note}")
    if description.searched:
        yield Heading(f"What the paper of {description.name} searched", 3)
        spaces = tuple((s.name, s.space, s.columns) for s in description.searched)
        yield text_table(("setting", "space", "for"), spaces)
