"""Writes a folder with what is needed to run a trial again, and what is unknown."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.dev_sets import identify_dev_set
from cse_methods.data.own.reading import local_file
from cse_methods.errors import DataError
from cse_methods.files.named import kind_of_file
from cse_methods.registry import get_method, own_methods
from cse_platform.errors import OutputError, SweepFileError
from cse_platform.export.folders import make_empty
from cse_platform.export.sweep_file import one_trial_sweep, sweep_text
from cse_platform.export.trial_code import trial_code
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.presentation.formats import escape_markdown
from cse_platform.presentation.tables import to_json
from cse_platform.safe_paths import write_below
from cse_platform.sweep.file import load_sweep
from cse_platform.values import iterate_leaves

_README = """\
# Trial {trial.key}

{method} on {backbone}, seed {trial.seed}. {expected}
Machine: {machine}; CPU threads: {threads}; Python {python}.
{outlook}

```
unset CSE_STORE CSE_SEARCH_STORE CSE_MLFLOW_URI MLFLOW_TRACKING_URI RAY_ADDRESS
python3 -m venv venv
venv/bin/pip install -r requirements.txt{package}
venv/bin/cse-sweep sweep.yaml --runs runs
venv/bin/cse-leaderboard {show}--runs runs
```

## What is unknown or different, and what to install into venv by hand

{notes}
"""


def write_reproduction(
    trial: TrialDetails, folder: Path, *, runs: Path
) -> tuple[list[str], list[str]]:
    """Write the sweep file, the packages, the code that no commit has, and the trial itself.

    Returns the names of the files, and sentences about what may keep the trial from giving the same
    result. Raises OutputError unless the folder is new or empty, and if the trial's key, which a
    command of the README has, is none. `runs` is a runs folder that may
    have the journal of the trial's sweep, if its driver's folder is not there.
    """
    if not re.fullmatch(r"[\w.-]+", trial.key):
        raise OutputError(f"{trial.key!r} is no key of a trial; cse-leaderboard rebuild drops it")
    code = trial_code(trial, runs=runs)
    make_empty(folder)
    sweep, not_carried = carry_own_sets(one_trial_sweep(trial), folder)
    expected = f"Expected: no dev value; the trial is {trial.state}."
    if trial.best_value is not None and trial.state != "RUNNING":
        at = "" if trial.best_step is None else f" at step {trial.best_step}"
        expected = f"Expected: dev {trial.dev.search} {trial.best_value:.12g}{at}."
    files = {
        "sweep.yaml": sweep_text(sweep, comment=f"Trial {trial.key} again.\n{expected}"),
        **code.files,
        "trial.json": to_json(trial.as_record()),
    }
    for name, text in files.items():
        # As bytes, so that a diff of a file with Windows line endings keeps them.
        write_below(folder, name, text.encode())
    notes = [*_describe_trial(trial), *code.notes, *_describe_locations(sweep), *not_carried]
    try:
        load_sweep(folder / "sweep.yaml")
    except SweepFileError as error:
        notes.append(f"sweep.yaml is not valid here: {' '.join(str(error).split())}")
    readme = _README.format(
        trial=trial,
        method=escape_markdown(trial.method),
        backbone=escape_markdown(trial.backbone),
        expected=escape_markdown(expected),
        outlook=_describe_outlook(trial),
        machine=escape_markdown(trial.machine or "not known"),
        threads=escape_markdown(trial.provenance.get("threads", "not known")),
        python=escape_markdown(trial.start_facts.get("python", "not known")),
        package=" ./method" if "method/pyproject.toml" in files else "",
        show="" if trial.origin else f"show {trial.key[:8]} ",
        notes="\n".join(f"- {escape_markdown(note)}" for note in notes or ["Nothing."]),
    )
    write_below(folder, "README.md", readme.encode())
    return [*files, "README.md"], notes


def carry_own_sets(sweep: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Copy the files of a lab's own dev sets into the folder.

    Returns:
        The sweep with the paths of the copies, and a sentence for each file that was not copied
        because it is gone or holds other pairs than the trial was judged by.
    """
    dev, missing = sweep["dev"], []
    selection = DevSelection.model_validate(dev)
    files = dict(selection.files)
    if not files:
        return sweep, []
    for name, own in files.items():
        copies = {path: Path(path).name for path in own.paths}
        if any((folder / copy).exists() for copy in copies.values()):  # another set's
            copies = {path: f"{name}-{copy}".replace(":", "-") for path, copy in copies.items()}
        try:
            identify_dev_set(selection, name, sweep.get("data"))
            for path, copy in copies.items():
                write_below(folder, copy, local_file(path).read_bytes())
        except (DataError, OutputError, OSError) as problem:
            known = f"; its rows must have sha256 {own.sha256}" if own.sha256 else ""
            missing.append(
                f"The dev set {name} is not in this folder ({problem}). Put "
                f"{', '.join(copies.values())} beside sweep.yaml{known}."
            )
        carried_paths = {path: f"./{copy}" for path, copy in copies.items()}
        files[name] = own.with_paths(carried_paths.__getitem__)
    carried = {name: own.model_dump(mode="json") for name, own in files.items()}
    return {**sweep, "dev": {**dev, "files": carried}}, missing


def _describe_outlook(trial: TrialDetails) -> str:
    """Say whether the commands work as they are, and whether they give the same dev curve."""
    if trial.origin is not None:
        return (
            "The commands work once what is unknown, as listed below, is filled in by hand; the "
            "dev curve may still differ."
        )
    known = (
        trial.configuration.code,
        trial.starts and trial.starts[0].packages,
        trial.machine,
        trial.provenance.get("threads"),
        trial.start_facts.get("python"),
    )
    if not all(known) or _list_lacking(trial):
        return "Its code, data and machine are not all known, so the dev curve may differ."
    if trial.provenance.get("device", "").startswith("cuda"):
        return "It ran on a GPU, which repeats a dev curve only as far as PyTorch's kernels do."
    return (
        "On one like it the dev curve is the same bit for bit; another CPU or number of "
        "threads changes last digits."
    )


def _list_lacking(trial: TrialDetails) -> list[str]:
    """List what is not known of the file of the sweep that ran the trial."""
    return [name for name in ("corpus", "dev", "resources") if name not in trial.spec]


def _describe_trial(trial: TrialDetails) -> Iterator[str]:
    """Describe what is unknown of the trial itself, and where it ended otherwise."""
    known, is_ours = "sweep.yaml has what the leaderboard knows", trial.method in own_methods()
    if trial.origin is not None:
        yield f"It was {trial.origin}: {known}; the trial gets another key."
        yield "Its corpus is not known: write it into sweep.yaml as corpus: NAME."
        advice = "cse-sweep trains its own" if is_ours else "install a package with it into venv"
        yield f"The code of the method {trial.method!r} is not known: {advice}."
    elif lacking := _list_lacking(trial):
        missing = f"{', '.join(lacking)} are missing"
        yield f"Its sweep file is not known ({missing}): {known}; the trial may get another key."
    names = ("package_commit", "git_commit")
    code = [([s.provenance.get(n) for n in names], s.packages, s.diffs) for s in trial.starts]
    if any(later != code[0] for later in code):
        yield (
            "It was interrupted and continued with other code or packages; trial.json lists "
            "all starts."
        )
    reached = f"after step {trial.curve[-1].step}" if trial.curve else "before its first dev point"
    if trial.state == "PRUNED":
        yield f"It was pruned {reached}; here it runs to its end."
    elif trial.state == "RUNNING":
        yield f"It is not finished; on the leaderboard it is {reached}."
    elif trial.state == "FAIL":
        yield f"It failed {reached}: {trial.error}"
    runs_ours = trial.origin is None and is_ours
    if runs_ours and (revision := get_method(trial.method).revision) != trial.revision:
        yield (
            f"The method {trial.method!r} is at revision {revision} here, but the trial ran "
            f"revision {trial.revision}: only that code reproduces it."
        )


def _describe_locations(sweep: Mapping[str, Any]) -> Iterator[str]:
    """Describe the locations that the sweep reads, except those on the hub, which all can read."""
    # A lab's own dev sets are in the folder, or reported as missing elsewhere.
    leaves = (leaf for _, leaf in iterate_leaves({**sweep, "dev": None}) if isinstance(leaf, str))
    for path in dict.fromkeys(leaf for leaf in leaves if not leaf.startswith("hf://")):
        is_url = "://" in path
        if is_url or path.startswith(("/", ".", "~")) or kind_of_file(path):
            is_known = is_url or Path(path).expanduser().exists()
            state = "must have the same content" if is_known else "is not here; sweep.yaml names it"
            yield f"It reads {path}, which {state}."
