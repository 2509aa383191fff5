"""Another package's method in the folder that runs a trial again: its source, or where it is."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cse_methods.code_hash import outside_sources
from cse_methods.contract import Method
from cse_methods.entry_points import ENTRY_POINT_GROUP, outside_methods
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method, own_methods
from cse_platform.export.reproduction.code import Code
from cse_platform.export.reproduction.unknowns import about_repository
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.secrets import mask_text
from cse_platform.sweep.identity import code_hash
from cse_platform.tracking.provenance import normalised

METHOD_DIFF = "method.diff"

_PROJECT = """\
[project]
name = "{package}"
version = "{version}"

[project.entry-points."{group}"]
{method} = "{module}"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["src"]
sources = ["src"]
"""


@dataclass(frozen=True)
class CarriedMethod:
    """What of a method's own package lies in the folder; nothing for a method of ours."""

    package: str | None = None
    """The name of its distribution, as indexes write it, if it lies in the folder."""
    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """What is unknown or missing, a sentence each."""


def carry_method(trial: TrialDetails, code: Code, folder: Path) -> CarriedMethod:
    """Copy the source of another package's method into the folder, as a package in `method/`.

    It is carried if it still is the code that the trial ran; else the repository is named that it
    was in, if there was one.
    """
    if trial.method in own_methods() or trial.imported_from is not None:
        return CarriedMethod()
    then = trial.configuration.code
    try:
        method = get_method(trial.method)
    except UnknownMethodError:
        return CarriedMethod(unknown=_elsewhere(trial, code, "it cannot be loaded here"))
    if not (sources := outside_sources(method)):
        return CarriedMethod(unknown=_elsewhere(trial, code, "its source cannot be read"))
    if then is not None and code_hash(method) != then:
        reason = "it, or what it uses of cse_methods, is other code here than the trial ran"
        return CarriedMethod(unknown=_elsewhere(trial, code, reason))
    if secret := _with_a_secret(sources.values()):
        reason = f"{secret.name} holds what looks like a secret"
        return CarriedMethod(unknown=_elsewhere(trial, code, reason))
    for place, file in sources.items():
        copy = folder / "method" / "src" / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    package, version = _distribution(method)
    project = _PROJECT.format(
        package=package,
        version=version,
        group=ENTRY_POINT_GROUP,
        method=method.name,
        module=method.train.__module__,
    )
    (folder / "method" / "pyproject.toml").write_text(project, encoding="utf-8")
    files = ("method/pyproject.toml", *(f"method/src/{place.as_posix()}" for place in sources))
    return CarriedMethod(package, files, () if then else (_UNSURE.format(trial.method),))


_UNSURE = (
    "The code that the method {!r} had is not known: method/ has what it is here, which may give "
    "another value."
)


def _with_a_secret(files: Iterable[Path]) -> Path | None:
    """The first of these files that the folder must not hold: it is there to be shared."""
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if mask_text(text) != text:
            return file
    return None


def _distribution(method: Method) -> tuple[str, str]:
    """Name and version of the package that a method is from."""
    for entry in outside_methods().get(method.name, ()):
        if entry.dist is not None:
            return normalised(entry.dist.name), entry.dist.version
    return normalised(method.name), "0"


def _elsewhere(trial: TrialDetails, code: Code, reason: str) -> tuple[str, ...]:
    """That its source is not in the folder, and where it is."""
    missing = f"The code of the method {trial.method!r} is not in this folder, because {reason}."
    if code.method is None:
        return (f"{missing} No repository of it is known: install it into venv yourself.",)
    place = f" of {code.method.remote}" if code.method.remote else ""
    changed = f", with {METHOD_DIFF} on top" if code.method.diff else ""
    return (
        f"{missing} It was commit {code.method.commit}{place}{changed}: check that out and install "
        "it into venv; reproduce.sh does not.",
        *about_repository(code.method, f"The repository of {trial.method!r}", "method"),
    )
