"""A folder that has all it takes to run one trial again, and says what is unknown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_platform.errors import SweepFileError
from cse_platform.export.folders import make_empty
from cse_platform.export.reproduction.code import Code, code_of_trial, requirements
from cse_platform.export.reproduction.outside_method import (
    METHOD_DIFF,
    CarriedMethod,
    carry_method,
)
from cse_platform.export.reproduction.own_sets import carry_own_sets
from cse_platform.export.reproduction.script import PACKAGE_DIFF, script
from cse_platform.export.reproduction.sweep_file import one_trial_sweep, sweep_text
from cse_platform.export.reproduction.unknowns import unknowns
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.render.serialise import to_json
from cse_platform.sweep.reading.loader import load_sweep


@dataclass(frozen=True)
class Reproduction:
    folder: Path
    files: tuple[str, ...]
    unknowns: tuple[str, ...]
    """What may keep the trial from coming out the same again, a sentence each."""


def write_reproduction(trial: TrialDetails, folder: Path) -> Reproduction:
    """Write sweep file, packages, changes of the code, a script, and the trial itself.

    The folder must be new or empty, else OutputError is raised.
    """
    make_empty(folder)
    code = code_of_trial(trial)
    method = carry_method(trial, code, folder)
    sweep, not_carried = carry_own_sets(one_trial_sweep(trial), folder)
    expected = _expected(trial)
    files = {
        "sweep.yaml": sweep_text(sweep, comment=_comment(trial, expected)),
        "requirements.txt": requirements(code, carried=method.package),
        **_diffs(code, method),
        "reproduce.sh": script(trial, code, method, expected=expected),
        "trial.json": to_json(trial.as_record()),
    }
    for name, text in files.items():
        # Bytes: a diff of a file with Windows' line ends must keep them.
        (folder / name).write_bytes(text.encode())
    (folder / "reproduce.sh").chmod(0o755)
    listed = [
        *unknowns(trial, code, sweep),
        *method.unknown,
        *not_carried,
        *_refused(folder / "sweep.yaml"),
    ]
    every = (*files, *method.files, "README.md")
    (folder / "README.md").write_text(_readme(trial, every, listed, expected), encoding="utf-8")
    return Reproduction(folder, every, tuple(listed))


def _diffs(code: Code, method: CarriedMethod) -> dict[str, str]:
    repositories = {PACKAGE_DIFF: code.package, "code.diff": code.user}
    if not method.files:
        repositories[METHOD_DIFF] = code.method
    return {name: one.diff for name, one in repositories.items() if one and one.diff}


def _refused(sweep: Path) -> list[str]:
    try:
        load_sweep(sweep)
    except SweepFileError as error:
        return [f"sweep.yaml is refused here: {' '.join(str(error).split())}"]
    return []


def _expected(trial: TrialDetails) -> str:
    if trial.best_value is None:
        return f"Expected: no dev value; the trial is {trial.state}."
    step = "" if trial.best_step is None else f" at step {trial.best_step}"
    return f"Expected: dev {trial.dev.search} {trial.best_value!r}{step}."


def _comment(trial: TrialDetails, expected: str) -> str:
    tests = [
        f"  {one.task} {one.metric} {one.value!r}, identity {one.identity}"
        for one in trial.main_scores
        if one.split == "test"
    ]
    head = [
        f"Trial {trial.key} again: {trial.method} on {trial.backbone}, seed {trial.seed}.",
        expected,
        "Launch: ./reproduce.sh, or cse-sweep sweep.yaml --runs runs",
    ]
    if tests:
        head += ["On test it had (cse-evaluate opens test sets, on record):", *tests]
    return "\n".join(head)


def _readme(trial: TrialDetails, files: Sequence[str], listed: list[str], expected: str) -> str:
    machine = trial.machine or "not known"
    threads = trial.provenance.get("threads", "not known")
    lines = [
        f"# Trial {trial.key}",
        "",
        f"{trial.method} on {trial.backbone}, seed {trial.seed}. {expected}",
        f"Machine: {machine}; CPU threads: {threads}. On one like it the dev curve is the same bit "
        "for bit; another GPU, CPU or number of threads changes last digits.",
        "",
        f"`./reproduce.sh` makes an environment, gets the code, runs the sweep and {_end(trial)}. "
        f"Files: {', '.join(files[:-1])}.",
        "Files that git does not track are in no diff.",
        "",
        "## What is unknown or different",
        "",
        *(f"- {one}" for one in listed or ["Nothing that the leaderboard knows of."]),
    ]
    return "\n".join(lines) + "\n"


def _end(trial: TrialDetails) -> str:
    if trial.can_come_out_again:
        return (
            f"shows the trial under the same key, `{trial.key[:8]}`; it ends with exit code 1 "
            "where another dev value came out"
        )
    return "shows what came out"
