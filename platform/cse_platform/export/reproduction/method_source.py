"""Writes the source of another package's method into a folder, as a package for pip."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_methods.code_hash import outside_sources
from cse_methods.entry_points import ENTRY_POINT_GROUP
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.export.reproduction.code import Code, about_repository
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.secrets import mask_text
from cse_platform.sweep.identity import code_hash
from cse_platform.tracking.method_code import (
    METHOD_SOURCE,
    MethodCode,
    find_distribution,
    list_outside,
    read_method_code,
)

METHOD_DIFF = "method.diff"

_PROJECT = """\
[project]
name = "{package}"
version = "{version}"

[project.entry-points."{group}"]
{methods}

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build.targets.wheel]
only-include = ["src"]
sources = ["src"]
"""


@dataclass(frozen=True)
class CarriedMethod:
    """The part of a method's own package that is in the folder; empty for a method of ours."""

    package: str | None = None
    """The normalised name of its distribution, if it is in the folder."""
    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Sentences about what is unknown or missing."""


def carry_method(trial: TrialDetails, code: Code, folder: Path, *, runs: Path) -> CarriedMethod:
    """Write the source of methods of other packages into the folder, as a package in `method/`.

    These are the trial's method and its bases. The source that the sweep has kept is preferred,
    then the installed one if it is still the code that the trial ran; otherwise its repository is
    named, if it has one. `runs` is another runs folder to search.
    """
    if trial.imported_from is not None:
        return CarriedMethod()
    kept = find_kept_code(trial, runs=runs)
    if kept is not None and kept.is_whole:
        return _write_kept_code(kept, folder)
    carried = _copy_present_source(trial, folder)
    if isinstance(carried, CarriedMethod):
        return carried
    if kept is not None:
        return _write_kept_code(kept, folder)
    return CarriedMethod(unknown=_explain_missing_code(trial, code, carried))


def find_kept_code(trial: TrialDetails, *, runs: Path) -> MethodCode | None:
    """Find the source of a trial's method that its sweep has kept; None if it is not here.

    Raises JournalError if it is damaged.
    """
    sha256 = trial.starts[0].provenance.get(METHOD_SOURCE) if trial.starts else None
    return None if sha256 is None else read_method_code(trial.journal_folders(runs), sha256)


def _write_kept_code(kept: MethodCode, folder: Path) -> CarriedMethod:
    for name, text in kept.files.items():
        file = _locate_copy(folder, name)
        file.write_bytes(text.encode())
    unknown = [
        *(f"Secrets in method/src/{name} are hidden: write them back." for name in kept.masked),
        *(
            f"method/src/{name} is not in this folder, because {why}: put it there yourself."
            for name, why in kept.left_out.items()
        ),
    ]
    return _finish_package(kept.package, kept.version, kept.methods, kept.files, folder, unknown)


def _copy_present_source(trial: TrialDetails, folder: Path) -> CarriedMethod | str:
    """Copy the installed source of methods of other packages; else return why it is not usable."""
    then = trial.configuration.code
    try:
        values = {name: (value,) for name, value in trial.configuration.values.items()}
        method = get_method(trial.method).beside(values)
    except UnknownMethodError:
        return "it cannot be loaded here"
    if not (outside := list_outside(method)):
        return CarriedMethod()
    if not (sources := outside_sources(method)):
        return "its source cannot be read"
    if then is not None and code_hash(method) != then:
        return "it, or what it uses of cse_methods, is other code here than the trial ran"
    if secret := _find_secret_file(sources.values()):
        return f"{secret.name} holds what looks like a secret"
    for relative, file in sources.items():
        shutil.copyfile(file, _locate_copy(folder, relative.as_posix()))
    return _finish_package(
        *find_distribution(outside[0]),
        {name: get_method(name).train.__module__ for name in outside},
        [relative.as_posix() for relative in sources],
        folder,
        [] if then else [_UNSURE.format(trial.method)],
    )


def _locate_copy(folder: Path, name: str) -> Path:
    copy = folder / "method" / "src" / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    return copy


def _finish_package(
    package: str,
    version: str,
    methods: Mapping[str, str],
    names: Iterable[str],
    folder: Path,
    unknown: Sequence[str],
) -> CarriedMethod:
    """Make the files in `method/` a package; `methods` are modules by method name."""
    entries = "\n".join(f'{name} = "{module}"' for name, module in methods.items())
    project = _PROJECT.format(
        package=package, version=version, group=ENTRY_POINT_GROUP, methods=entries
    )
    (folder / "method" / "pyproject.toml").write_text(project, encoding="utf-8")
    files = ("method/pyproject.toml", *(f"method/src/{name}" for name in names))
    return CarriedMethod(package, files, tuple(unknown))


_UNSURE = (
    "The code that the method {!r} had is not known: method/ has what it is here, which may give "
    "another value."
)


def _find_secret_file(files: Iterable[Path]) -> Path | None:
    """Find the first file with a secret, because a folder to be shared must not contain any."""
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        if mask_text(text) != text:
            return file
    return None


def _explain_missing_code(trial: TrialDetails, code: Code, reason: str) -> tuple[str, ...]:
    """Explain why a method's source is not in the folder, and where it is."""
    missing = f"The code of the method {trial.method!r} is not in this folder, because {reason}."
    if code.method is None:
        return (f"{missing} No repository of it is known: install it into venv yourself.",)
    origin = f" of {code.method.remote}" if code.method.remote else ""
    changed = f", with {METHOD_DIFF} on top" if code.method.diff else ""
    return (
        f"{missing} It was commit {code.method.commit}{origin}{changed}: check that out and "
        "install it into venv; reproduce.sh does not.",
        *about_repository(code.method, f"The repository of {trial.method!r}", "method"),
    )
