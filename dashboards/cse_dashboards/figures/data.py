"""What a figure shows, as data: one line a mark, in the units of the figure's axes."""

import csv
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from itertools import zip_longest
from typing import Any

import plotly.graph_objects as go

Line = dict[str, Any]


def as_csv(figure: go.Figure) -> str:
    """Every number of a figure, in long form.

    Args:
        figure: of Plotly. Further numbers of a mark (in the hover) stand in a trace's `customdata`,
            shape (marks, columns), and go by the names in its `meta`.

    Returns:
        CSV with a head. The first column, `trace`, has the trace's name; then come the columns that
        any trace has, named by the titles of its axes and colour bars, `low` and `high` for the
        ends of error bars, `text` for what is written at a mark or in its hover.

    Raises:
        ValueError: for a kind of trace that has no table yet.
    """
    lines = [
        {"trace": trace.name or trace.type} | line
        for trace in figure.data
        for line in _reading(trace)(trace, figure)
    ]
    text = StringIO()
    columns = dict.fromkeys(name for line in ({"trace": ""}, *lines) for name in line)
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in line.items()} for line in lines)
    return text.getvalue()


def _told(value: Any) -> bool:
    return value is not None and value != "" and value == value  # NaN is not itself


def _cell(value: Any) -> Any:
    if not _told(value):
        return ""
    return value.replace("<br>", "; ") if isinstance(value, str) else value


def _reading(trace: Any) -> Callable[[Any, go.Figure], Iterator[Line]]:
    if trace.type not in _READINGS:
        raise ValueError(f"no table for a trace of type {trace.type!r}: name one in figures/data")
    return _READINGS[trace.type]


def _points(trace: Any, figure: go.Figure) -> Iterator[Line]:
    """Of marks at (x, y), with the ends of their error bars."""
    places = dict(zip(_axes(trace, figure), (trace.x, trace.y), strict=True))
    columns = {**places, **_bars(trace), **_further(trace), **_beside(trace, figure)}
    for line in _by_line(columns):
        if all(_told(line[name]) for name in places if name in line):  # else there is no mark
            yield line


def _cells(trace: Any, figure: go.Figure) -> Iterator[Line]:
    """Of a grid of values over x and y."""
    x, y = _axes(trace, figure)
    name = _colour_title(trace, figure) or "value"
    rows = trace.z if trace.z is not None else ()
    width = max((len(row) for row in rows), default=0)
    across = trace.x if trace.x is not None else range(width)
    down = trace.y if trace.y is not None else range(len(rows))
    for at, row in zip(down, rows, strict=True):
        for there, one in zip(across, row, strict=True):
            if _told(one):
                yield {x: there, y: at, name: one}


def _dimensions(trace: Any, figure: go.Figure) -> Iterator[Line]:
    """Of lines through parallel axes; where ticks name every value, by these names."""
    columns = {one.label: _named(one) for one in trace.dimensions}
    shade = trace.line.color
    if shade is not None and not isinstance(shade, str):
        columns[_colour_title(trace.line, figure) or "colour"] = shade
    yield from _by_line(columns)


def _named(dimension: Any) -> Any:
    names = dict(zip(dimension.tickvals or (), dimension.ticktext or (), strict=False))
    return (
        [names[v] for v in dimension.values]
        if {*dimension.values} <= {*names}
        else dimension.values
    )


def _table(trace: Any, figure: go.Figure) -> Iterator[Line]:
    yield from _by_line(dict(zip(trace.header.values, trace.cells.values, strict=True)))


_READINGS: Mapping[str, Callable[[Any, go.Figure], Iterator[Line]]] = {
    **dict.fromkeys(("scatter", "scattergl", "bar", "box", "violin", "histogram"), _points),
    **dict.fromkeys(("heatmap", "contour"), _cells),
    "parcoords": _dimensions,
    "table": _table,
}


def _by_line(columns: Mapping[str, Any]) -> Iterator[Line]:
    """Columns that a trace does not have are left out, short ones are filled up."""
    there = {name: values for name, values in columns.items() if values is not None}
    for values in zip_longest(*there.values()):
        yield dict(zip(there, values, strict=True))


def _axes(trace: Any, figure: go.Figure) -> tuple[str, str]:
    x, y = (_title(figure, getattr(trace, f"{one}axis") or one) for one in "xy")
    return (x, y) if x != y else (f"{x} (x)", f"{y} (y)")


def _title(figure: go.Figure, axis: str) -> str:
    """Of an axis, or of the one whose range it shares."""
    own = figure.layout[f"{axis[0]}axis{axis[1:]}"]
    if own.title.text or not own.matches or own.matches == axis:
        return own.title.text or axis
    return _title(figure, own.matches)


def _bars(trace: Any) -> Line:
    """The ends of the error bars, of y or else of x."""
    for name in ("y", "x"):
        error = _part(trace, f"error_{name}")
        if error is not None and error.array is not None:
            down = error.array if error.arrayminus is None else error.arrayminus
            middle = getattr(trace, name)
            return {"low": _moved(middle, down, -1), "high": _moved(middle, error.array, 1)}
    return {}


def _moved(middle: Any, by: Any, sign: int) -> list[float | None]:
    return [
        one + sign * far if _told(one) and _told(far) else None
        for one, far in zip(middle, by, strict=True)
    ]


def _further(trace: Any) -> Line:
    if trace.customdata is None or trace.meta is None:
        return {}
    return dict(zip(trace.meta, zip(*trace.customdata, strict=True), strict=True))


def _beside(trace: Any, figure: go.Figure) -> Line:
    """What colours mean, and what is written at the marks."""
    shade = _part(_part(trace, "marker"), "color")
    told: Line = {}
    if shade is not None and not isinstance(shade, str) and not any(map(_is_text, shade)):
        told[_colour_title(trace.marker, figure) or "colour"] = shade
    for texts in (trace.hovertext, trace.text):
        if texts is not None and not isinstance(texts, str):
            told["text"] = texts
    return told


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _colour_title(of: Any, figure: go.Figure) -> str | None:
    """Of the colour bar, a trace's own or a shared one."""
    if shared := _part(of, "coloraxis"):
        return _part(figure.layout[shared], "colorbar").title.text  # type: ignore[no-any-return]
    bar = _part(of, "colorbar")
    return bar.title.text if bar is not None else None


def _part(of: Any, name: str) -> Any:
    """None where traces of this kind have no such part."""
    return of[name] if of is not None and name in of else None
