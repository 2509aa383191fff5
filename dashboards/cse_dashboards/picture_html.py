"""Pictures as HTML: what `templates/picture.html` needs, on the page as in a report."""

import base64
import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from cse_dashboards.figures.look import DARK, LIGHT
from cse_dashboards.figures.picture import Picture

_STATIC = Path(__file__).parent / "page" / "static"


def figure_json(figure: go.Figure) -> Markup:
    """The figure as JSON that can stand in a script element; its template is put on when drawn."""
    parts = json.loads(figure.to_json())
    parts["layout"].pop("template", None)
    return _in_script(json.dumps(parts, separators=(",", ":")))


def csv_link(picture: Picture) -> str:
    """The data of a picture, as the address of a file."""
    coded = base64.b64encode(picture.csv.encode()).decode()
    return f"data:text/csv;charset=utf-8;base64,{coded}"


def templates_json() -> Markup:
    both = {"light": LIGHT.to_plotly_json(), "dark": DARK.to_plotly_json()}
    return _in_script(json.dumps(both, separators=(",", ":")))


def plotly_js() -> Markup:
    """The JavaScript of Plotly, as it stands in a script element."""
    return Markup(get_plotlyjs().replace("</", "<\\/"))  # no end tag in what stands between tags


def static_text(name: str) -> Markup:
    """A file of the page, to be written into a document that stands alone."""
    return Markup((_STATIC / name).read_text(encoding="utf-8"))


def add_pictures(environment: Environment) -> None:
    """Give templates what `picture.html` uses."""
    environment.filters |= {"figure_json": figure_json, "csv_link": csv_link}
    environment.globals["templates_json"] = templates_json


def standalone() -> Environment:
    """Templates for a document that needs no server."""
    environment = Environment(
        loader=PackageLoader("cse_dashboards.page"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    add_pictures(environment)
    known: dict[str, Any] = {"plotly_js": plotly_js, "static_text": static_text}
    environment.globals |= known
    return environment


def _in_script(json_text: str) -> Markup:
    """JSON that can stand in a script element: neither an end tag nor a comment begins in it."""
    return Markup(json_text.replace("<", "\\u003c"))
