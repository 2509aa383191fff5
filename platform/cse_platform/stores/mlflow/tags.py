"""Builds all tags and links that go to MLflow, within MLflow's limits."""

import hashlib
import json
import posixpath
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from cse_platform.secrets import mask_text, mask_values
from cse_platform.tracking import events
from cse_platform.tracking.history import stored_confirmed, stored_dev

NAME_LENGTH = 250
PARAM_LENGTH = 6000
TAG_LENGTH = 8000
"""Limits in characters; longer text is truncated and ends in an ellipsis."""


def milliseconds(time: datetime) -> int:
    """Convert a time to milliseconds since 1970, the unit of MLflow."""
    return round(time.timestamp() * 1000)


def text(value: Any, *, limit: int) -> str:
    """Format strings as they are, anything else as canonical JSON; mask secrets, cut to `limit`."""
    if isinstance(value, str):
        value = mask_text(value)
    else:
        kept, short = mask_values(value), (",", ":")
        value = json.dumps(kept, sort_keys=True, separators=short, ensure_ascii=False)
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


_BRACKETS = str.maketrans({"(": "-:", ")": ":-", ",": ".:"})
"""What stands for characters in names of tasks that MLflow refuses; it is in no such name."""


def clean_name(name: str) -> str:
    """Convert a name to the characters, path form and length that MLflow accepts.

    No two names of tasks become one.
    """
    name = name.translate(_BRACKETS)
    path = posixpath.normpath(re.sub(r"[^\w\-./ :]", "_", name, flags=re.ASCII)).lstrip("/.")
    return path[:NAME_LENGTH] or "_"


IDENTITY = "cse.run"
"""Tag by which a run is found: a hash of sweep and trial, which needs no quoting."""
JOURNAL = "cse.journal"
"""Tag of a sweep's run: the id of its journal."""
TRIAL = "trial"
"""Tag of a trial's run and of its model: the trial's key."""
TESTS_OPENED = "tests_opened"
"""Tag of a trial's run: when test sets were first opened for it, and by whom."""
INHERITED = {
    *("sweep", "method", "backbone", "corpus", "dev_checkpoint", "dev_search", "tags"),
    *("git_commit", "git_dirty", "mlflow.source.git.commit"),
}
"""Tags of a sweep's run that its trials' runs have too."""
CONFIRMED = "cse.confirmed"
"""Tag of a sweep of which every configuration gets the same further seeds."""
PARENT = "mlflow.parentRunId"
"""MLflow's tag that nests the run of a trial under that of its sweep."""
POSITION = "cse.position"
"""Prefix of an experiment's tag: the offset up to which the journal with that id was applied."""
VIEW_OFFERED = "cse.view_offered"
"""Tag of the experiment: hash of the saved view as we last wrote it, to detect changes by users."""
PROGRESS = "cse.progress"
"""Tag of a sweep's run: the number of ended trials and the best value so far, as JSON."""
END_POSITION = "cse.place"
"""Tag of a trial's run: its position among the ended trials of its sweep, and when, in
milliseconds.
"""
DESCRIPTION = "mlflow.note.content"
"""Tag that MLflow shows as the description of a run, in Markdown."""


def run_identity(*names: str) -> str:
    """Compute the `IDENTITY` of a run, from the sweep's name, and for a trial also its key."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def sweep_tags(event: events.SweepStarted) -> dict[str, str]:
    """Build the tags of a sweep's run. They include the sweep file, as artifacts may be
    unreachable.
    """
    dev = stored_dev(event.spec)
    search = event.spec.get("search") or {}
    tags = {
        "sweep": event.sweep,
        "method": event.method,
        "backbone": event.backbone,
        "corpus": event.spec.get("corpus"),
        "dev_checkpoint": dev.checkpoint_name,
        "dev_search": dev.search_name,
        "tags": ", ".join(event.spec.get("tags", ())) or None,
        "pruner": event.spec.get("pruner"),
        "search.trials": search.get("trials"),
        "search.budget": search.get("budget"),
        "spec": event.spec,
        CONFIRMED: stored_confirmed(event.spec) or None,
    }
    return format_tags(tags | _build_provenance_tags(event.provenance))


def trial_tags(event: events.TrialBegun) -> dict[str, str]:
    """Build the tags of a trial's run at its start, without the inherited ones."""
    tags: dict[str, Any] = {
        TRIAL: event.trial,
        "number": event.number,
        "role": event.role,
        "seed": event.seed,
        "configuration": event.configuration,
        "searched": ", ".join(event.searched),
    }
    if isinstance(event, events.TrialReused):
        tags |= {"state": "COMPLETE", "reused": True, "model": event.model}
        return format_tags(tags | {"reused_from": event.reused_from})
    dev = {k if k.startswith("corpus") else f"dev_{k}": value for k, value in event.dev.items()}
    tags |= {"state": "RUNNING", "revision": event.revision}
    if isinstance(event, events.TrialStarted) and event.resumed_from is not None:
        tags["error"] = ""  # clear the error of the previous attempt
    return format_tags(tags | dev)


def annotation_tags(event: events.AnnotationWritten) -> tuple[dict[str, str], set[str]]:
    """Build the tags that an annotation adds to runs, and the names of those that it removes.

    Tags about a configuration have a prefix: `configuration_note`.
    """
    prefix = "configuration_" if event.about == "configuration" else ""
    written, removed = dict[str, str | bool](), set[str]()
    for kind, word, text, stands in event.changes:
        name = f"{prefix}{kind}{'.' if word else ''}{word}"
        if stands:
            written[name] = text or True
        else:
            removed.add(clean_name(name))
    return format_tags(written), removed


def later_tags(
    event: events.TrialFinished | events.ModelDeleted | events.TestAccessed | events.TrialEvaluated,
) -> dict[str, str]:
    """Build the tags that what follows the start of a trial adds to its run.

    `evaluation.<task>` is the identity of the task's main metric; `tests_opened` is when test sets
    were first opened for the trial, and by whom.
    """
    added: dict[str, Any]
    match event:
        case events.TrialFinished():
            added = {"state": event.state, "error": event.error, "model": event.model}
            added |= _build_provenance_tags(event.provenance)
        case events.ModelDeleted():
            added = {"model": "", "model_deleted": event.time.isoformat()}
        case events.TestAccessed():
            added = {TESTS_OPENED: f"{event.time.isoformat()} {event.who}"}
        case events.TrialEvaluated():
            # The main metric comes last, so that its identity wins.
            main_last = sorted(event.scores, key=lambda score: score.metric in events.MAIN_METRICS)
            added = {f"evaluation.{score.task}": score.identity for score in main_last}
    return format_tags(added)


def _build_provenance_tags(provenance: Mapping[str, str]) -> dict[str, str]:
    """Build tags: `git_…` unchanged and as MLflow's source version, the rest as `env.…`."""
    tags = {k if k.startswith("git_") else f"env.{k}": v for k, v in provenance.items()}
    if commit := provenance.get("git_commit"):
        tags["mlflow.source.git.commit"] = commit
    return tags


def format_tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Format tags within the limits; those without a value are left out."""
    known = {name: value for name, value in tags.items() if value is not None}
    return {clean_name(name): text(value, limit=TAG_LENGTH) for name, value in known.items()}


VIEW = "cse.configurations"
"""Key of the saved view."""
_TRAINING = "workflowType=machine_learning"


def run_link(experiment: str, run: str) -> str:
    """Link to the page of a run; both arguments are ids."""
    return f"#/experiments/{quote(experiment)}/runs/{quote(run)}?{_TRAINING}"


def comparison_link(experiments: Collection[str], runs: Collection[str]) -> str:
    """Link to MLflow's comparison of runs; all arguments are ids."""
    asked = {"runs": json.dumps(list(runs)), "experiments": json.dumps(list(experiments))}
    return f"#/compare-runs?{urlencode(asked, quote_via=quote)}"


def view_link(experiment: str) -> str:
    """Link to the saved view of all trials of an experiment, given its id."""
    return f"#/experiments/{quote(experiment)}/runs?{_TRAINING}&viewStateShareKey={VIEW}"
