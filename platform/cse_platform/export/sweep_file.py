"""Makes the sweep file of exactly one trial; run anywhere, it gives the trial of the same key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cse_methods.files.named import is_file_name, kind_of_file
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.nested import iterate_leaves, map_leaves


def sweep_name(trial: TrialDetails) -> str:
    return f"reproduce-{trial.key[:8]}"


def one_trial_sweep(trial: TrialDetails) -> dict[str, Any]:
    """Make the sweep file of one trial as plain values, in the file's order.

    All values are fixed to the trial's, the search seed is the trial's, and it gets the same number
    of threads. For an average, the sweep runs all its seeds and averages them. Settings that the
    original file lacks (an imported trial has no file) are taken from the leaderboard. Relative
    paths become absolute if the folder that they are relative to is known and contains them.
    """
    spec, dev = trial.spec, trial.dev
    further = [one.seed for one in trial.averages if one.seed != trial.seed]
    confirm = {"top": 1, "seeds": further, "average": True}
    sweep = {
        "sweep": sweep_name(trial),
        "method": trial.method,
        "backbone": trial.backbone,
        "corpus": spec.get("corpus") or trial.corpus.split("+"),
        "data": spec.get("data"),
        "dev": spec.get("dev") or {"checkpoint": dev.checkpoint, "search": dev.search},
        "fixed": trial.configuration.values,
        "search": {"sampler": "random", "trials": 1},
        "seeds": {"search": trial.seed, **({"confirm": confirm} if further else {})},
        "resources": _make_resources(trial),
    }
    folder = trial.starts[0].provenance.get("folder") if trial.starts else None
    return sweep if folder is None else map_leaves(sweep, lambda text: _make_absolute(text, folder))


def sweep_text(sweep: dict[str, Any], *, comment: str) -> str:
    """Format the file: the comment, then a line for each key with a JSON value, which is YAML."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for name, value in sweep.items():
        if name == "fixed" and value:
            lines += ["fixed:", *(f"  {key}: {_dump_json(entry)}" for key, entry in value.items())]
        else:
            lines.append(f"{name}: {_dump_json(value)}")
    return "\n".join(lines) + "\n"


def local_places(value: Any) -> Iterator[str]:
    """Yield every text inside a value that names a local or remote location, in order.

    Locations on the hub are skipped, because they are the same for everybody.
    """
    for _, text in iterate_leaves(value):
        if not isinstance(text, str) or text.startswith("hf://"):
            continue
        if text.startswith(("/", ".", "~")) or "://" in text or kind_of_file(text):
            yield text


def _make_resources(trial: TrialDetails) -> dict[str, Any]:
    """Return the file's resources, but with the trial's number of threads, which its results depend
    on.
    """
    on_gpu = trial.provenance.get("device", "").startswith("cuda")
    resources: dict[str, Any] = {"gpu": int(on_gpu), **(trial.spec.get("resources") or {})}
    threads = trial.provenance.get("threads")
    if threads is not None and int(threads) != max(1, int(resources.get("cpu", 1))):
        resources["cpu"] = int(threads)
    return resources


def _make_absolute(value: Any, folder: str) -> Any:
    """Make a path absolute if it exists relative to the folder; return anything else unchanged."""
    if not isinstance(value, str) or not is_file_name(value):
        return value
    path = Path(folder, value)
    return str(path.resolve()) if path.exists() else value


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
