"""A view of all trials in MLflow's table of runs, saved where its menu `Views` looks for it."""

import base64
import hashlib
import json
import zlib
from typing import Any

from cse_methods.data.dev_selection import DevSelection
from cse_platform.tracking.events import SweepStarted
from cse_platform.tracking.mlflow.limits import clean_name
from cse_platform.tracking.mlflow.links import VIEW
from cse_platform.tracking.mlflow.metrics import best_metric
from cse_platform.tracking.mlflow.tags import VIEW_OFFERED

VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Of the experiment. MLflow 3.17 keeps a saved view so; an older one passes it over."""

SEARCH_FILTER = "tags.configuration LIKE '%' AND tags.reused IS NULL"
"""Trials, each once: one that another sweep reuses has a run there too, which would count twice."""

MOST_COLUMNS = 100
"""MLflow refuses a tag of more than 5,000 characters."""

_PACKED = "deflate;"
_FIRST = ("tags.`sweep`", "tags.`method`", "tags.`backbone`")
_LAST = ("metrics.`test/avg_sts_spearman`",)
_STATE = {
    "searchFilter": SEARCH_FILTER,
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "groupBy": {
        "aggregateFunction": "average",
        "groupByKeys": [{"mode": "tag", "groupByData": "configuration"}],
    },
    "useGroupedValuesInCharts": True,
    "hideEmptyCharts": True,
    "runsHiddenMode": "FIRST_10_RUNS",
}


def offer_view(client: Any, experiment: str, event: SweepStarted) -> None:
    """Save the view with what this sweep varies; one that a user changed or deleted stays so."""
    known = client.get_experiment(experiment).tags
    offered, stored = known.get(VIEW_OFFERED), known.get(VIEW_TAG)
    if offered is not None and (stored is None or offered != _hash(stored)):
        return
    if (view := _renewed(stored, event)) != stored:
        client.set_experiment_tag(experiment, VIEW_TAG, view)
        client.set_experiment_tag(experiment, VIEW_OFFERED, _hash(view))


def _renewed(stored: str | None, event: SweepStarted) -> str:
    """The tag's value: trials grouped by configuration, so that seeds are averaged, best first.

    Its columns are scores, and the hyperparameters that this sweep varies, beside those that the
    stored view has from the sweeps before.
    """
    known = [] if stored is None else _state_of(stored)["selectedColumns"]
    dev = DevSelection.model_validate(event.spec.get("dev") or {})
    scores = [best_metric(name) for name in dict.fromkeys((dev.search_name, dev.checkpoint))]
    varied = [clean_name(name) for name in event.spec.get("space") or {}]
    columns = (
        *_FIRST,
        *(f"metrics.`{name}`" for name in scores),
        *_LAST,
        *known,
        *(f"params.`{name}`" for name in varied),
    )
    shown = [*dict.fromkeys(columns)][:MOST_COLUMNS]
    order = f"metrics.`{scores[0]}`" if stored is None else _state_of(stored)["orderByKey"]
    return _named({**_STATE, "orderByKey": order, "selectedColumns": shown})


def _hash(view: str) -> str:
    """By which a view that a user has changed is known."""
    return hashlib.sha256(view.encode()).hexdigest()


def _named(state: dict[str, Any]) -> str:
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()
    named = {"name": "Configurations, seeds averaged", "createdAt": 0, "updatedAt": 0}
    return json.dumps({**named, "state": f"{_PACKED}{packed}"})


def _state_of(view: str) -> dict[str, Any]:
    packed = str(json.loads(view)["state"]).removeprefix(_PACKED)
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return state
