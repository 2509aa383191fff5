"""The script that runs a trial again: environment, code, sweep, and what must come out."""

import shlex
from collections.abc import Iterator

from cse_platform.export.reproduction.code import Code, Repository
from cse_platform.export.reproduction.outside_method import CarriedMethod
from cse_platform.leaderboard.query.trials.details_record import TrialDetails

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

_OWN_STORES = "unset CSE_STORE CSE_SEARCH_STORE CSE_MLFLOW_URI RAY_ADDRESS"


def script(trial: TrialDetails, code: Code, method: CarriedMethod, *, expected: str) -> str:
    """A shell script for the folder that it lies in; it can be run again after a failure.

    `expected` says in one line what the value must be.
    """
    parts = [
        f"#!/bin/sh\n# Runs trial {trial.key} again.\nset -eu\n"
        'cd "$(dirname "$0")"\n'
        f"# A store that others use would give the old trial back.\n{_OWN_STORES}",
        f"{_python(code)}{_ENVIRONMENT}",
        *_own_code(code),
        *(["venv/bin/pip install --quiet --no-deps ./method"] if method.files else []),
        "\n".join(["venv/bin/cse-sweep sweep.yaml --runs runs", *_outcome(trial, expected)]),
    ]
    return "\n\n".join(parts) + "\n"


def _outcome(trial: TrialDetails, expected: str) -> Iterator[str]:
    """Shows what came out, and compares what should be the same."""
    if trial.imported_from is not None:  # its key is not that of the trial that was run now
        yield "venv/bin/cse-leaderboard --runs runs"
    else:
        yield f"venv/bin/cse-leaderboard show {trial.key[:8]} --runs runs"
    yield f"echo {shlex.quote(expected)}"
    if trial.can_come_out_again:
        yield _COMPARISON.format(key=trial.key[:8])


def _python(code: Code) -> str:
    known = f"# It ran on Python {code.python}; PYTHON names another than python3.\n"
    return known if code.python else ""


def _own_code(code: Code) -> Iterator[str]:
    if code.package is not None:
        yield _checkout(code.package)
        yield "venv/bin/pip install --quiet --no-deps --editable code"
    elif not code.installed:
        yield (
            ': "${CODE:?name a folder with the code}"\n'
            'venv/bin/pip install --quiet --editable "$CODE"'
        )


def _checkout(repository: Repository) -> str:
    """The code of the commit, with the changes; under its name only once it is whole."""
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
