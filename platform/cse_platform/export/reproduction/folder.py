"""Writes a folder with everything that is needed to run a trial again, and what is unknown."""

import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_methods.data.own.reading import load_own_pairs, local_file
from cse_methods.data.own.spec import OwnPairs
from cse_methods.errors import DataError
from cse_platform.errors import SweepFileError
from cse_platform.export.folders import make_empty
from cse_platform.export.reproduction.code import (
    Code,
    Repository,
    code_of_trial,
    requirements,
    unknowns,
)
from cse_platform.export.reproduction.method_source import METHOD_DIFF, CarriedMethod, carry_method
from cse_platform.export.reproduction.sweep_file import one_trial_sweep, sweep_text
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.render.table import to_json
from cse_platform.sweep.file import load_sweep


def carry_own_sets(sweep: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Copy the files of a lab's own dev sets into the folder.

    Returns:
        The sweep with the paths of the copies, and a sentence for each file that was not copied
        because it is gone or holds other pairs than the trial was judged by.
    """
    dev, missing = sweep["dev"], []
    files = {name: OwnPairs.model_validate(own) for name, own in dev.get("files", {}).items()}
    if not files:
        return sweep, []
    for name, own in files.items():
        copy = Path(own.file).name
        try:
            load_own_pairs(own)
            shutil.copyfile(local_file(own), folder / copy)
        except (DataError, OSError) as problem:
            missing.append(
                f"The dev set {name} is not in this folder ({problem}). Put {copy} beside "
                f"sweep.yaml; its pairs have sha256 {own.sha256}, and others are refused."
            )
        files[name] = own.model_copy(update={"file": f"./{copy}"})
    carried = {name: own.model_dump(mode="json") for name, own in files.items()}
    return {**sweep, "dev": {**dev, "files": carried}}, missing


PACKAGE_DIFF = "package.diff"

_ENVIRONMENT = """\
test -d venv || "${PYTHON:-python3}" -m venv venv
venv/bin/pip install --quiet --requirement requirements.txt"""

_COMPARISON = """\
venv/bin/cse-leaderboard show {key} --runs runs --json > again.json
venv/bin/python - <<'END'
import json, sys

then, now = (json.load(open(file, encoding="utf-8")) for file in ("trial.json", "again.json"))
if now["best_value"] != then["best_value"]:
    sys.exit(
        f"Error: dev {{then['dev']['search']}} is {{now['best_value']!r}} at step "
        f"{{now['best_step']}}, and was {{then['best_value']!r}} at step {{then['best_step']}}; "
        "README.md says what may be different"
    )
print("The same dev value came out.")
END"""

_OWN_STORES = "unset CSE_STORE CSE_SEARCH_STORE CSE_MLFLOW_URI MLFLOW_TRACKING_URI RAY_ADDRESS"


def script(trial: TrialDetails, code: Code, method: CarriedMethod, *, expected: str) -> str:
    """Write a shell script that runs the trial in its folder, and can be run again after a failure.

    `expected` states in one line what the value must be.
    """
    known = f"# It ran on Python {code.python}; PYTHON names another than python3.\n"
    parts = [
        f"#!/bin/sh\n# Runs trial {trial.key} again.\nset -eu\n"
        'cd "$(dirname "$0")"\n'
        f"# A store that others use would give the old trial back.\n{_OWN_STORES}",
        f"{known if code.python else ''}{_ENVIRONMENT}",
        *_format_own_code(code),
        *(["venv/bin/pip install --quiet --no-deps ./method"] if method.files else []),
        "\n".join(["venv/bin/cse-sweep sweep.yaml --runs runs", *_format_outcome(trial, expected)]),
    ]
    return "\n\n".join(parts) + "\n"


def _format_outcome(trial: TrialDetails, expected: str) -> Iterator[str]:
    """Format the lines that show the result, and compare it with the original if it should be
    equal.
    """
    if trial.imported_from is not None:  # the trial that was run now has another key
        yield "venv/bin/cse-leaderboard --runs runs"
    else:
        yield f"venv/bin/cse-leaderboard show {trial.key[:8]} --runs runs"
    yield f"echo {shlex.quote(expected)}"
    if trial.can_come_out_again:
        yield _COMPARISON.format(key=trial.key[:8])


def _format_own_code(code: Code) -> Iterator[str]:
    if code.package is not None:
        yield _format_checkout(code.package)
        yield "venv/bin/pip install --quiet --no-deps --editable code"
    elif not code.installed:
        yield (
            ': "${CODE:?name a folder with the code}"\n'
            'venv/bin/pip install --quiet --editable "$CODE"'
        )


def _format_checkout(repository: Repository) -> str:
    """Format the lines that check out the commit and its changes; a partial `code` never exists."""
    asked = f"name a repository that has commit {repository.commit}"
    source = (
        f': "${{CODE:?{asked}}}"'
        if repository.remote is None
        else f"FROM={shlex.quote(repository.remote)}\nCODE=${{CODE:-$FROM}}"
    )
    apply = f"    git -C code.part apply --whitespace=nowarn ../{PACKAGE_DIFF}\n"
    changes = apply if repository.diff and repository.can_be_had else ""
    return (
        f"{source}\n"
        "if ! test -d code; then\n"
        "    rm -rf code.part\n"
        '    git clone --quiet "$CODE" code.part\n'
        f"    git -C code.part checkout --quiet {repository.commit}\n"
        f"{changes}"
        "    mv code.part code\n"
        "fi"
    )


@dataclass(frozen=True)
class Reproduction:
    folder: Path
    files: tuple[str, ...]
    unknowns: tuple[str, ...]
    """Sentences about what may keep the trial from giving the same result."""


def write_reproduction(trial: TrialDetails, folder: Path, *, runs: Path) -> Reproduction:
    """Write the sweep file, the packages, changes of the code, a script, and the trial itself.

    Raises OutputError unless the folder is new or empty. `runs` is a runs folder that may have the
    journal of the trial's sweep, if its driver's folder is not there.
    """
    make_empty(folder)
    code = code_of_trial(trial)
    method = carry_method(trial, code, folder, runs=runs)
    sweep, not_carried = carry_own_sets(one_trial_sweep(trial), folder)
    expected = _format_expected(trial)
    repositories = {PACKAGE_DIFF: code.package, "code.diff": code.user}
    if not method.files:
        repositories[METHOD_DIFF] = code.method
    files = {
        "sweep.yaml": sweep_text(sweep, comment=_format_comment(trial, expected)),
        "requirements.txt": requirements(code, carried=method.package),
        **{name: repo.diff for name, repo in repositories.items() if repo and repo.diff},
        "reproduce.sh": script(trial, code, method, expected=expected),
        "trial.json": to_json(trial.as_record()),
    }
    for name, text in files.items():
        # As bytes, so that a diff of a file with Windows line endings keeps them.
        (folder / name).write_bytes(text.encode())
    (folder / "reproduce.sh").chmod(0o755)
    listed = [
        *unknowns(trial, code, sweep),
        *method.unknown,
        *not_carried,
        *_find_refusal(folder / "sweep.yaml"),
    ]
    every = (*files, *method.files, "README.md")
    (folder / "README.md").write_text(
        _format_readme(trial, every, listed, expected), encoding="utf-8"
    )
    return Reproduction(folder, every, tuple(listed))


def _find_refusal(sweep: Path) -> list[str]:
    try:
        load_sweep(sweep)
    except SweepFileError as error:
        return [f"sweep.yaml is refused here: {' '.join(str(error).split())}"]
    return []


def _format_expected(trial: TrialDetails) -> str:
    if trial.best_value is None:
        return f"Expected: no dev value; the trial is {trial.state}."
    step = "" if trial.best_step is None else f" at step {trial.best_step}"
    return f"Expected: dev {trial.dev.search} {trial.best_value!r}{step}."


def _format_comment(trial: TrialDetails, expected: str) -> str:
    tests = [
        f"  {score.task} {score.metric} {score.value!r}, identity {score.identity}"
        for score in trial.main_scores
        if score.split == "test"
    ]
    head = [
        f"Trial {trial.key} again: {trial.method} on {trial.backbone}, {trial.shown_seed}.",
        expected,
        "Launch: ./reproduce.sh, or cse-sweep sweep.yaml --runs runs",
    ]
    if tests:
        head += ["On test it had (cse-evaluate opens test sets, on record):", *tests]
    return "\n".join(head)


def _format_readme(
    trial: TrialDetails, files: Sequence[str], listed: list[str], expected: str
) -> str:
    machine = trial.machine or "not known"
    threads = trial.provenance.get("threads", "not known")
    lines = [
        f"# Trial {trial.key}",
        "",
        f"{trial.method} on {trial.backbone}, {trial.shown_seed}. {expected}",
        f"Machine: {machine}; CPU threads: {threads}. On one like it the dev curve is the same bit "
        "for bit; another GPU, CPU or number of threads changes last digits.",
        "",
        "`./reproduce.sh` makes an environment, gets the code, runs the sweep and "
        f"{_describe_end(trial)}. Files: {', '.join(files[:-1])}.",
        "Files that git does not track are in no diff.",
        "",
        "## What is unknown or different",
        "",
        *(f"- {sentence}" for sentence in listed or ["Nothing that the leaderboard knows of."]),
    ]
    return "\n".join(lines) + "\n"


def _describe_end(trial: TrialDetails) -> str:
    if trial.can_come_out_again:
        return (
            f"shows the trial under the same key, `{trial.key[:8]}`; it ends with exit code 1 "
            "where another dev value came out"
        )
    return "shows what came out"
