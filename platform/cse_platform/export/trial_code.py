"""Finds the code that a trial ran, shows it, and compares it with another trial's."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import tomli_w
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from cse_methods.entry_points import ENTRY_POINT_GROUP
from cse_methods.registry import own_methods
from cse_platform.export.journal_files import describe_journal_folders, journal_folders
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.tracking.method_code import METHOD_SOURCE, MethodCode, read_method_code
from cse_platform.tracking.provenance import SWEEP_PACKAGES, can_be_applied

_OURS = "cse-platform"
"""The name of this package's distribution."""

_REMOTE = re.compile(r"(https?|ssh|git|file)://")
"""The ways in which git gets a checkout; others could run a command."""


@dataclass(frozen=True)
class TrialCode:
    """The code of one trial, as far as it is kept."""

    trial: str
    """The first digits of its key."""
    hash: str | None
    """The hash of its method's code; None if unknown."""
    files: dict[str, str]
    """The requirements for pip, the diff of each checkout against its commit, and the package of
    a kept method, by name.
    """
    notes: tuple[str, ...]
    """Sentences about code that is not in the files, and about what is unknown."""


def trial_code(trial: TrialDetails, *, runs: Path) -> TrialCode:
    """Collect the code of a trial.

    `runs` is a runs folder that may have the journal of its sweep, if its driver's folder is not
    there. Raises JournalError if a kept source is damaged.
    """
    facts, kept = trial.start_facts, None
    if METHOD_SOURCE in facts:
        kept = read_method_code(journal_folders(trial, runs), facts[METHOD_SOURCE])
    packages = dict(trial.starts[0].packages) if trial.starts else {}
    packages = packages or {name: facts[name] for name in SWEEP_PACKAGES if name in facts}
    if "package_commit" in facts:
        packages.pop(_OURS, None)
    checkouts = _find_checkouts(trial)
    if kept is not None or trial.method in own_methods():
        checkouts.pop("method", None)  # its source is in the files, or it is ours
    if kept is not None:
        packages.pop(kept.package, None)
    requirements, refused = _format_requirements(packages, checkouts.get("package"))
    files = {"requirements.txt": requirements}
    files |= {f"{name}.diff": each["diff"] for name, each in checkouts.items() if each["diff"]}
    if kept is not None:
        wheel = {"only-include": ["src"], "sources": ["src"]}
        project = {
            "project": {
                "name": kept.package,
                "version": kept.version,
                "entry-points": {ENTRY_POINT_GROUP: kept.methods},
            },
            "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
            "tool": {"hatch": {"build": {"targets": {"wheel": wheel}}}},
        }
        files["method/pyproject.toml"] = tomli_w.dumps(project)
        files |= {f"method/src/{name}": text for name, text in kept.files.items()}
    notes = (
        *(f"{line!r} is no requirement that pip reads, and is left out." for line in refused),
        *_describe_packages(trial, packages, checkouts),
        *_describe_method(trial, kept, runs),
    )
    return TrialCode(trial.key[:8], trial.configuration.code, files, notes)


def _find_checkouts(trial: TrialDetails) -> dict[str, dict[str, str]]:
    """Find the commit, remote and diff of each git checkout of a trial's code, and if it was dirty.

    These are `package`, this package's; `method`, that of another package's method; `code`, in
    which the sweep was started, if it is a different one. What is unknown is empty.
    """
    checkouts, facts = dict[str, dict[str, str]](), trial.start_facts
    for name, key in (("package", "package"), ("method", "method"), ("code", "git")):
        if f"{key}_commit" not in facts:
            continue
        checkout = {fact: facts.get(f"{key}_{fact}", "") for fact in ("commit", "remote", "dirty")}
        if "***" in checkout["remote"]:  # its password is masked
            checkout["remote"] = ""
        checkout["diff"] = trial.starts[0].diffs.get(key) or ""
        if name != "code" or checkout not in checkouts.values():
            checkouts[name] = checkout
    return checkouts


def _format_requirements(
    packages: Mapping[str, str], package: Mapping[str, str] | None
) -> tuple[str, list[str]]:
    """Format the packages for pip, this one by its commit if it ran from a checkout.

    A build such as 2.9.0+cpu is not in pip's index, and is asked for by its public version. Returns
    the text, and the lines that are not requirements, as a journal from elsewhere may have them.
    """
    lines, refused = list[str](), list[str]()
    for name, version in sorted(packages.items()):
        try:
            line = f"{canonicalize_name(name, validate=True)}=={Version(version).public}"
            lines.append(f"{line}  # it was {version}" if Version(version).local else line)
        except (InvalidName, InvalidVersion):
            refused.append(f"{name}=={version}")
    if package and package["remote"]:
        remote = re.sub(r"^([^/:@]+@[^/:]+):", r"ssh://\1/", package["remote"])
        address = remote if "://" in remote else Path(remote).absolute().as_uri()
        line = f"{_OURS} @ git+{address}@{package['commit']}"
        try:
            Requirement(line)
            (lines if _REMOTE.match(address) else refused).append(line)
        except InvalidRequirement:
            refused.append(line)
    return "".join(f"{line}\n" for line in lines), refused


def _describe_packages(
    trial: TrialDetails, packages: dict[str, str], checkouts: dict[str, dict[str, str]]
) -> Iterator[str]:
    """Describe packages and checkouts that are unknown, or that no requirement names."""
    if not packages:
        yield "No version of any package is known."
    elif not trial.starts[0].packages:
        yield "Only the versions of a few packages are known; requirements.txt lists these."
    if builds := [f"{name} {version}" for name, version in packages.items() if "+" in version]:
        yield (
            f"Special builds: {', '.join(builds)}. requirements.txt has the plain version; install "
            "the build first where its last digits matter."
        )
    if "package" not in checkouts and _OURS not in packages:
        yield f"Neither commit nor version of {_OURS} is known."
    whose = {"package": _OURS, "code": "The folder of the sweep"}
    for name, checkout in checkouts.items():
        if name != "package" or checkout["dirty"] == "true" or not checkout["remote"]:
            origin = f" of {checkout['remote']}" if checkout["remote"] else ""
            changes = f"{name}.diff" if checkout["diff"] else "that nobody recorded"
            changed = f", with changes ({changes})" if checkout["dirty"] == "true" else ""
            owner = whose.get(name, f"The method {trial.method!r}")
            yield f"{owner} was at commit {checkout['commit']}{origin}{changed}."
        if checkout["diff"] and not can_be_applied(checkout["diff"]):
            yield f"{name}.diff is incomplete and cannot be applied: its last line says why."


def _describe_method(trial: TrialDetails, kept: MethodCode | None, runs: Path) -> Iterator[str]:
    """Describe the source of another package's method that is not in the files."""
    if kept is not None:
        yield from (f"Secrets in method/src/{name} are hidden." for name in kept.masked)
        for name, why in kept.left_out.items():
            yield f"method/src/{name} is not kept, because {why}."
    elif METHOD_SOURCE in trial.start_facts:
        yield (
            f"The source of the method {trial.method!r} is not here, but beside the journal of "
            f"its sweep, in {describe_journal_folders(trial)}. Give the command there, or copy the "
            f"folder `code` from there to {[*journal_folders(trial, runs)][-1]}."
        )
    elif trial.origin is None and trial.method not in own_methods():
        yield f"The source of the method {trial.method!r} was not kept."


def format_code(code: TrialCode) -> str:
    """Format a trial's code as one text: what is known of the rest, and each file by its name."""
    files = [f"==> {name} <==\n{text.rstrip()}" for name, text in code.files.items()]
    return "\n\n".join([*filter(None, [_format_notes(code).rstrip()]), *files]) + "\n"


def _format_notes(code: TrialCode) -> str:
    hashed = [f"The code of its method has the hash {code.hash}."] if code.hash else []
    return "".join(f"# {note}\n" for note in (*code.notes, *hashed))


def format_code_changes(before: TrialCode, after: TrialCode) -> str:
    """Format the differences between two trials' code as `diff` does.

    Differences of the notes come first. If nothing recorded differs, the text says so.
    """
    old, new = ({"notes": _format_notes(code), **code.files} for code in (before, after))
    changes = "".join(
        line if line.endswith("\n") else f"{line}\n"
        for name in dict.fromkeys((*old, *new))
        for line in unified_diff(
            old.get(name, "").splitlines(keepends=True),
            new.get(name, "").splitlines(keepends=True),
            f"{before.trial}/{name}",
            f"{after.trial}/{name}",
        )
    )
    if changes:
        return changes
    both = f"{after.trial} and {before.trial}"
    unknown = f"the records of the code of {both} do not differ\n"
    return unknown if after.hash is None else f"{both} ran the same code\n"
