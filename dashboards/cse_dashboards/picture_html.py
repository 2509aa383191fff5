"""Pictures as HTML: filters for `templates/picture.html`, on the page and in reports."""

import json
import math
from base64 import b64decode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakKeyDictionary

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from cse_dashboards.figures.picture import DARK, LIGHT, Picture

STATIC = Path(__file__).parent / "page" / "static"
LIBRARY = "plotly.min.js"
"""The script that draws figures, a static file built by dashboards/plotly-bundle."""
_PLAIN = " ,;:@=+*/()[]{}|!$~^"
"""Characters that need no escape in a data URL within a quoted attribute."""


_WRITTEN = WeakKeyDictionary[Picture, Markup]()
"""The JSON of pictures that are still in use."""


def picture_json(picture: Picture) -> Markup:
    """Return a picture's figure as JSON for a script element.

    It is cached, because a page shows many pictures again. The template is left out; the browser
    adds it when it draws the figure.
    """
    if picture not in _WRITTEN:
        assert picture.figure is not None
        written = picture.figure.to_json()
        parts = json.loads(written, parse_float=_round_digits, object_hook=_unpack_numbers)
        parts["layout"].pop("template", None)
        _WRITTEN[picture] = _escape_for_script(json.dumps(parts, separators=(",", ":")))
    return _WRITTEN[picture]


def _round_digits(digits: str | float) -> float | None:
    """Round to six digits, as more are invisible and do not compress. Returns None for NaN."""
    value = float(f"{float(digits):.6g}")
    return None if math.isnan(value) else value


def _unpack_numbers(entry: dict[str, Any]) -> Any:
    """Convert numbers that Plotly has packed as base64 to a list, which compresses better."""
    if "bdata" not in entry:
        return entry
    packed = np.frombuffer(b64decode(entry["bdata"]), entry["dtype"])
    values = np.array([_round_digits(value) for value in packed.tolist()], dtype=object)
    shape = [int(side) for side in str(entry.get("shape", len(values))).split(",")]
    return values.reshape(shape).tolist()


def trials_json(pictures: Iterable[Picture]) -> Markup:
    """Return the notes on the trials in some pictures, by the ids of points and lines."""
    notes = {name: note for picture in pictures for name, note in picture.trials.items()}
    return _escape_for_script(json.dumps(notes, separators=(",", ":"), ensure_ascii=False))


def csv_link(picture: Picture) -> str:
    """Return the data of a picture as a data URL.

    It is percent-encoded, because base64 hardly compresses.
    """
    return f"data:text/csv;charset=utf-8,{quote(picture.csv, safe=_PLAIN)}"


def static_text(name: str) -> Markup:
    """Read a static file, to be embedded in a standalone document."""
    return Markup((STATIC / name).read_text(encoding="utf-8"))


def add_pictures(environment: Environment) -> None:
    """Add what `picture.html` needs to an environment."""
    environment.filters["picture_json"] = picture_json
    environment.filters["trials_json"] = trials_json
    templates = {"light": LIGHT.to_plotly_json(), "dark": DARK.to_plotly_json()}
    written = _escape_for_script(json.dumps(templates, separators=(",", ":")))
    environment.globals["picture_templates"] = written


@cache
def standalone() -> Environment:
    """Make an environment for documents that need no server."""
    environment = Environment(
        loader=PackageLoader("cse_dashboards.page"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    add_pictures(environment)
    environment.filters["csv_link"] = csv_link
    environment.globals |= {"plotly": LIBRARY, "static_text": static_text}
    return environment


def _escape_for_script(json_text: str) -> Markup:
    """Escape JSON for a script element, so that it contains no end tag or comment."""
    return Markup(json_text.replace("<", "\\u003c"))
