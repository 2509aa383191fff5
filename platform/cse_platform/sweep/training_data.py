"""Read from a sweep's spec, as JSON, which data its trials train on and are selected by."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from cse_methods.data.corpus_spec import Corpora
from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.data.overlap import TrainingData
from cse_methods.published.released import teachers_of
from cse_platform.sweep.objectives import metric_of

_CORPORA: TypeAdapter[Corpora] = TypeAdapter(Corpora)


def training_data(spec: Mapping[str, Any], values: Mapping[str, Any]) -> TrainingData:
    """Return the training data of one trial.

    Args:
        spec: the sweep's spec at its last start, as JSON.
        values: all hyperparameters of the trial; may be empty if teachers do not matter.
    """
    dev = DevSelection.model_validate(spec.get("dev") or {})
    objectives = (spec.get("search") or {}).get("objectives") or []
    climbed = {metric_of(objective["name"]) for objective in objectives}
    in_objectives = (name for name in dev.tasks if dev_metric(name) in climbed)
    return TrainingData(
        dev=dev,
        chosen_on=tuple(dict.fromkeys((*dev.picking, *dev.climbed, *in_objectives))),
        corpora=_CORPORA.validate_python(corpus) if (corpus := spec.get("corpus")) else (),
        backbone=spec.get("backbone"),
        teachers=teachers_of(values),
        data=spec.get("data"),
    )
