"""What stands in MLflow: names, tags, parameters and metrics of events, within MLflow's limits."""

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from cse_methods.data.dev_selection import DevSelection
from cse_platform.tracking.events import SweepStarted, TrialFinished, TrialReused, TrialStarted
from cse_platform.tracking.provenance import hide_password

NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 8000
"""MLflow's limits, in characters; longer text is cut and ends in an ellipsis."""

IDENTITY = "cse.run"
"""Tag by which a run is found again: a hash of sweep and trial, which needs no quoting."""
NOTE = "mlflow.note.content"
"""Tag that MLflow shows as the description of a run, in Markdown."""
YOURS = "*What you write below this line stays when the text above is renewed.*"
"""The last line of a description that is ours."""
_HASH_DIGITS = 8
"""Digits of a configuration's hash in the name of a run."""


def run_identity(*names: str) -> str:
    """Of a sweep's run, by its name, or of a trial's, by those of sweep and trial."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def milliseconds(time: datetime) -> int:
    """Since 1970, as MLflow keeps time."""
    return round(time.timestamp() * 1000)


def text(value: Any, *, limit: int) -> str:
    """A string as it is, anything else as canonical JSON; cut to `limit` characters."""
    if not isinstance(value, str):
        value = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    value = value.replace("\0", "")  # PostgreSQL takes none
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def clean_name(name: str) -> str:
    """The name in the characters, the path form and the length that MLflow takes."""
    path = posixpath.normpath(re.sub(r"[^\w\-./ :]", "_", name, flags=re.ASCII)).lstrip("/.")
    return path[:NAME_LENGTH] or "_"


def sweep_tags(event: SweepStarted) -> dict[str, str]:
    """Tags of a sweep's run. The sweep file is one of them: artifacts may be out of reach."""
    dev = DevSelection.model_validate(event.spec.get("dev") or {})
    tags = {
        "sweep": event.sweep,
        "method": event.method,
        "backbone": event.backbone,
        "corpus": event.spec.get("corpus"),
        "dev_checkpoint": dev.checkpoint,
        "dev_search": dev.search,
        "tags": ", ".join(event.spec.get("tags", ())) or None,
        "spec": _without_passwords(event.spec),
    }
    return _texts(tags | _provenance_tags(event.provenance))


def first_note(event: SweepStarted) -> str:
    """The description of a sweep's run until there is more to say."""
    said = f"Sweep **{event.sweep}**: {event.method} on {event.backbone}."
    return f"{text(said, limit=TAG_LENGTH - len(YOURS) - 2)}\n\n{YOURS}"


def trial_title(event: TrialStarted | TrialReused, method: str) -> str:
    """Name of a trial's run, in which runs of one configuration stand together."""
    configuration = event.configuration[:_HASH_DIGITS]
    return f"{method} {configuration} seed {event.seed} (#{event.number})"


def inherited_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Those tags of a sweep's run that each of its trials carries too."""
    names = {"sweep", "method", "backbone", "corpus", "dev_checkpoint", "dev_search", "tags"}
    git = {"git_commit", "git_dirty", "mlflow.source.git.commit"}
    return {name: value for name, value in tags.items() if name in names | git}


def trial_tags(event: TrialStarted | TrialReused) -> dict[str, str]:
    """Tags of a trial's run at its start, beside the inherited ones."""
    tags = {
        "trial": event.trial,
        "number": event.number,
        "role": event.role,
        "seed": event.seed,
        "configuration": event.configuration,
        "searched": ", ".join(event.searched),
    }
    if isinstance(event, TrialReused):
        return _texts(tags | {"state": "COMPLETE", "reused": True, "model": event.model})
    dev = {k if k == "corpus" else f"dev_{k}": value for k, value in event.dev.items()}
    tags |= {"state": "RUNNING", "revision": event.revision}
    if event.resumed_from is not None:
        tags["error"] = ""  # whatever stopped it before no longer holds
    return _texts(tags | dev)


def end_tags(event: TrialFinished) -> dict[str, str]:
    """Tags of a trial's run at its end."""
    tags = {"state": event.state, "error": event.error, "model": event.model}
    return _texts(tags | _provenance_tags(event.provenance))


def trial_params(event: TrialStarted | TrialReused) -> dict[str, str]:
    """All hyperparameters and the seed."""
    values = {**event.values, "seed": event.seed}
    return {clean_name(name): text(value, limit=PARAM_LENGTH) for name, value in values.items()}


def end_metrics(event: TrialFinished) -> dict[str, float]:
    """`best/…` for each `dev/…` of the best step, that step, and the seconds it all took."""
    metrics = {
        name.replace("dev/", "best/", 1): value
        for name, value in event.best_metrics.items()
        if name.startswith("dev/")
    }
    if event.best_step is not None:
        metrics["best/step"] = event.best_step
    if event.wall_seconds is not None:
        metrics["perf/wall_seconds"] = event.wall_seconds
    return metrics


def _provenance_tags(provenance: Mapping[str, str]) -> dict[str, str]:
    """`git_…` under its own name, and where MLflow shows a version; the rest as `env.…`."""
    tags = {k if k.startswith("git_") else f"env.{k}": v for k, v in provenance.items()}
    if commit := provenance.get("git_commit"):
        tags["mlflow.source.git.commit"] = commit
    return tags


def _without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return hide_password(value)
    if isinstance(value, dict):
        return {name: _without_passwords(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_passwords(inner) for inner in value]
    return value


def _texts(tags: Mapping[str, Any]) -> dict[str, str]:
    return {
        clean_name(name): text(value, limit=TAG_LENGTH)
        for name, value in tags.items()
        if value is not None
    }
