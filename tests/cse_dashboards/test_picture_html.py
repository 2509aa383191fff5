import ast
import json
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly import graph_objects
from plotly.basedatatypes import BaseTraceType
from plotly.offline import get_plotlyjs_version

import cse_dashboards.figures
from cse_dashboards.figures.picture import Picture
from cse_dashboards.picture_html import LIBRARY, STATIC, picture_json


def test_packed_numbers_are_lists_of_few_digits_and_gaps() -> None:
    heights = np.array([[0.123456789, np.nan], [1.0, 2.0]])
    figure = go.Figure(go.Heatmap(x=np.array([1, 2]), y=["a", "</script>"], z=heights))
    written = picture_json(Picture("name", "title", "caption", figure))

    assert "</script>" not in written
    [cells] = json.loads(written)["data"]
    assert cells["x"] == [1, 2]
    assert cells["z"] == [[0.123457, None], [1.0, 2.0]]


def test_the_numbers_of_a_figure_are_no_formulas_of_a_spreadsheet() -> None:
    data = pd.DataFrame({"=text": ["=1+1", "- so he said", "-0.5"], "score": [-0.5, np.nan, 1.0]})
    picture = Picture("name", "title", "caption", data=data)
    assert picture.csv == "'=text,score\n'=1+1,-0.5\n'- so he said,\n-0.5,1.0\n"


def test_plotly_draws_every_trace_and_no_more_and_comes_with_its_licences() -> None:
    drawn = set[str]()  # the types of all traces that our figures are made of
    for file in Path(cse_dashboards.figures.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "go":
                made = getattr(graph_objects, node.attr)
                if isinstance(made, type) and issubclass(made, BaseTraceType):
                    drawn.add(node.attr.lower())
    with (STATIC / LIBRARY).open(encoding="utf-8") as file:
        banner = file.readline()
    version, _, traces = banner.removeprefix("/*! plotly.js ").partition(": ")
    assert set(traces.partition(".")[0].split()) == drawn
    assert version == get_plotlyjs_version()
    assert "MIT" in banner
    licences = (STATIC / "plotly.licences.txt").read_text(encoding="utf-8")
    assert f"plotly.js {get_plotlyjs_version()}: MIT" in licences
