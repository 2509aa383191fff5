"""A view of all trials in MLflow's table of runs, saved where its menu `Views` looks for it."""

import base64
import json
import zlib
from urllib.parse import quote

_KEY = "cse"
VIEW_TAG = f"mlflow.sharedViewState.{_KEY}"
"""Of the experiment. MLflow 3.17 keeps a saved view so; an older one passes it over."""

SEARCH_FILTER = "tags.configuration LIKE '%' AND tags.reused IS NULL"
"""Trials, each once: one that another sweep reuses has a run there too, which would count twice."""

_STATE = {
    "searchFilter": SEARCH_FILTER,
    "orderByKey": "metrics.`best/stsb_spearman`",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": [
        "tags.`sweep`",
        "tags.`method`",
        "metrics.`best/stsb_spearman`",
        "metrics.`best/sickr_spearman`",
    ],
    "groupBy": {
        "aggregateFunction": "average",
        "groupByKeys": [{"mode": "tag", "groupByData": "configuration"}],
    },
    "useGroupedValuesInCharts": True,
    "hideEmptyCharts": True,
    "runsHiddenMode": "FIRST_10_RUNS",
}


def saved_view() -> str:
    """The tag's value: trials grouped by configuration, so that seeds are averaged, best first."""
    packed = base64.b64encode(zlib.compress(json.dumps(_STATE).encode())).decode()
    named = {"name": "Configurations, seeds averaged", "createdAt": 0, "updatedAt": 0}
    return json.dumps({**named, "state": f"deflate;{packed}"})


def view_link(experiment: str) -> str:
    """Where the view is, from any page of the same server; `experiment` is an id."""
    asked = f"workflowType=machine_learning&viewStateShareKey={_KEY}"
    return f"#/experiments/{quote(experiment)}/runs?{asked}"
