"""Makes the sweep file of exactly one trial; run anywhere, it gives the trial of the same key."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from cse_methods.files.named import is_file_name
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.values import map_leaves


def one_trial_sweep(trial: TrialDetails) -> dict[str, Any]:
    """Make the sweep file of one trial as plain values, in the file's order.

    All values are fixed to the trial's, the search seed is the trial's, and it gets the same number
    of threads, on which its results depend. Settings that the original file lacks are taken from
    the leaderboard; the corpus of an imported or recorded trial is unknown, and left out. Relative
    paths become absolute if the folder that they are relative to is known and contains them.
    """
    spec, dev = trial.spec, trial.dev
    on_gpu = trial.provenance.get("device", "").startswith("cuda")
    resources: dict[str, Any] = {"gpu": int(on_gpu), **(spec.get("resources") or {})}
    threads = trial.provenance.get("threads")
    if threads is not None and int(threads) != max(1, int(resources.get("cpu", 1))):
        resources["cpu"] = int(threads)
    corpus = spec.get("corpus") or trial.corpus.split("+")
    sweep = {
        "sweep": f"reproduce-{trial.key[:8]}",
        "method": trial.method,
        "backbone": trial.backbone,
        **({"corpus": corpus} if trial.origin is None else {}),
        "data": spec.get("data"),
        "dev": spec.get("dev") or {"checkpoint": dev.checkpoint, "search": dev.search},
        "fixed": trial.configuration.values,
        "search": {"sampler": "random", "trials": 1},
        "seeds": {"search": trial.seed},
        "resources": resources,
    }
    folder = trial.start_facts.get("folder")

    def make_absolute(value: Any) -> Any:
        if folder is None or not isinstance(value, str) or not is_file_name(value):
            return value
        path = Path(folder, value)
        return str(path.resolve()) if path.exists() else value

    changed: dict[str, Any] = map_leaves(sweep, make_absolute)
    return changed


def sweep_text(sweep: dict[str, Any], *, comment: str) -> str:
    """Format the file: the comment, then a line for each key with a JSON value, which is YAML."""
    dump = partial(json.dumps, ensure_ascii=False)
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    for name, value in sweep.items():
        if name == "fixed" and value:
            names = {key: key if key.isidentifier() else dump(key) for key in value}
            lines += ["fixed:", *(f"  {names[key]}: {dump(value[key])}" for key in value)]
        else:
            lines.append(f"{name}: {dump(value)}")
    return "\n".join(lines) + "\n"
