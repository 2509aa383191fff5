"""Figures as they stand in HTML."""

import json

import numpy as np
import plotly.graph_objects as go

from cse_dashboards.picture_html import figure_json


def test_packed_numbers_are_lists_of_few_digits_and_gaps() -> None:
    heights = np.array([[0.123456789, np.nan], [1.0, 2.0]])
    figure = go.Figure(go.Heatmap(x=np.array([1, 2]), y=["a", "</script>"], z=heights))
    written = figure_json(figure)

    assert "</script>" not in written
    [cells] = json.loads(written)["data"]
    assert cells["x"] == [1, 2]
    assert cells["z"] == [[0.123457, None], [1.0, 2.0]]
