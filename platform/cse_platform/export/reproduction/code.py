"""Finds the code and packages that a trial ran, how to get them again, and what is unknown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.export.reproduction.sweep_file import local_places
from cse_platform.leaderboard.trial_details import SweepStart, TrialDetails
from cse_platform.tracking.provenance import SWEEP_PACKAGES, can_be_applied

OURS = "cse-platform"
"""The name of this package's distribution."""


@dataclass(frozen=True)
class Repository:
    """A git checkout that code was run from."""

    commit: str
    remote: str | None
    """URL of origin; None if it is unknown or its password is masked."""
    dirty: bool
    diff: str | None
    """Its diff against the commit; None if there was none, or it was not recorded."""

    @property
    def can_be_had(self) -> bool:
        return not self.dirty or (self.diff is not None and can_be_applied(self.diff))


@dataclass(frozen=True)
class Code:
    """The code and packages that a trial ran, as far as they are known."""

    python: str | None
    packages: dict[str, str]
    """Versions by name, including this package's unless it ran from a checkout."""
    whole: bool
    """Whether `packages` lists everything that was installed."""
    package: Repository | None
    """This package's checkout; None if it was installed, or that is unknown."""
    user: Repository | None
    """The repository that the sweep was started in, if it is a different one."""
    method: Repository | None
    """The repository of the method's own package; None if it had none, or the method is ours."""

    @property
    def installed(self) -> bool:
        """Whether this package was installed as a release."""
        return OURS in self.packages


def code_of_trial(trial: TrialDetails) -> Code:
    """Find the code at the start of a trial's sweep; empty if no start is known."""
    start = trial.starts[0] if trial.starts else None
    facts = start.provenance if start else {}
    package, user, method = (_make_repository(start, name) for name in ("package", "git", "method"))
    packages = dict(start.packages) if start else {}
    known = {name: facts[name] for name in SWEEP_PACKAGES if name in facts}
    versions = packages or known
    if package is not None:
        versions.pop(OURS, None)
    return Code(
        python=facts.get("python"),
        packages=versions,
        whole=bool(packages),
        package=package,
        user=None if user in (package, method) else user,
        method=method,
    )


def requirements(code: Code, *, carried: str | None) -> str:
    """Format the packages for pip; a build such as 2.9.0+cpu is requested by its public version.

    `carried` is the package whose source is in the folder.
    """
    head = [f"# Python {code.python}"] if code.python else []
    asked = sorted(pair for pair in code.packages.items() if pair[0] != carried)
    lines = [_format_requirement(name, version) for name, version in asked]
    return "\n".join([*head, *lines]) + "\n"


def _format_requirement(name: str, version: str) -> str:
    # Builds with a local version are not in pip's default index.
    public, _, build = version.partition("+")
    return f"{name}=={public}" + (f"  # it was {version}" if build else "")


def _make_repository(start: SweepStart | None, name: str) -> Repository | None:
    facts = start.provenance if start else {}
    if start is None or f"{name}_commit" not in facts:
        return None
    remote = facts.get(f"{name}_remote")
    return Repository(
        commit=facts[f"{name}_commit"],
        remote=None if remote is None or "***" in remote else remote,
        dirty=facts.get(f"{name}_dirty") == "true",
        diff=start.diffs.get(name),
    )


def unknowns(trial: TrialDetails, code: Code, sweep: Mapping[str, Any]) -> list[str]:
    """List what is unknown, missing or different; `sweep` is the sweep file of this trial alone."""
    return [
        *_describe_sweep_file(trial),
        *_describe_packages(code),
        *_describe_code(code),
        *_describe_interruptions(trial),
        *_describe_end(trial),
        *_describe_method(trial),
        *_describe_places(sweep),
    ]


def _describe_sweep_file(trial: TrialDetails) -> Iterator[str]:
    lacking = [name for name in ("corpus", "dev", "resources") if name not in trial.spec]
    if trial.imported_from is not None:
        yield (
            f"It was imported from {trial.imported_from}: sweep.yaml has what the leaderboard "
            "knows, and gives a trial of another key."
        )
    elif lacking:
        yield (
            f"The sweep file that it ran from is not known ({', '.join(lacking)} are missing): "
            "sweep.yaml has what the leaderboard knows, and may give a trial of another key."
        )


def _describe_packages(code: Code) -> Iterator[str]:
    if not code.packages and not code.whole:
        yield "No version of any package is known; requirements.txt is empty."
    elif not code.whole:
        yield "Only the versions of a few packages are known; requirements.txt has no others."
    builds = [name for name, version in code.packages.items() if "+" in version]
    if builds:
        yield (
            f"Special builds: {', '.join(f'{name} {code.packages[name]}' for name in builds)}. "
            "reproduce.sh installs the plain version; install the build into venv first where its "
            "last digits matter."
        )


def _describe_code(code: Code) -> Iterator[str]:
    if code.package is not None:
        yield from about_repository(code.package, f"The code of {OURS}", "package")
        if code.package.remote is None:
            yield (
                f"Where the code of {OURS} can be cloned from is not known; give reproduce.sh a "
                "repository in CODE."
            )
    elif not code.installed:
        yield (
            f"Neither commit nor version of {OURS} is known; give reproduce.sh a folder of its "
            "code in CODE."
        )
    if code.user is not None:
        origin = f" of {code.user.remote}" if code.user.remote else ""
        changed = ", with code.diff on top" if code.user.diff else ""
        yield (
            f"The sweep was started in another repository, at commit {code.user.commit}{origin}"
            f"{changed}. If the method or a file is from there, check it out and install it: "
            "reproduce.sh does not."
        )
        yield from about_repository(code.user, "That repository", "code")


def about_repository(repository: Repository, whose: str, name: str) -> Iterator[str]:
    """Describe changes of a repository that were not recorded completely in `name`.diff."""
    if repository.dirty and repository.diff is None:
        yield f"{whose} had changes beside commit {repository.commit}, and nobody recorded them."
    elif not repository.can_be_had:
        yield (
            f"{whose} had more changes than were recorded whole: {name}.diff cannot be applied, "
            "and its last line says why."
        )


def _describe_interruptions(trial: TrialDetails) -> Iterator[str]:
    if any(_has_other_code(trial, index) for index in range(1, len(trial.starts))):
        yield (
            "It was cut off and went on with other code or packages than it began with; "
            "trial.json has both under starts."
        )


def _has_other_code(trial: TrialDetails, index: int) -> bool:
    """Whether a later start had different code or packages than the first."""
    first, later = trial.starts[0], trial.starts[index]
    names = ("git_commit", "package_commit")
    commits = [[start.provenance.get(name) for name in names] for start in (first, later)]
    same = (first.packages, first.diffs) == (later.packages, later.diffs)
    return commits[0] != commits[1] or not same


def _describe_end(trial: TrialDetails) -> Iterator[str]:
    last = trial.curve[-1].step if trial.curve else None
    reached = "before its first dev point" if last is None else f"after step {last}"
    match trial.state:
        case "PRUNED":
            yield f"It was pruned {reached}; here it goes on to its end."
        case "RUNNING":
            yield f"It is not finished: the leaderboard has it {reached}."
        case "FAIL":
            yield f"It failed {reached}: {trial.error}"


def _describe_method(trial: TrialDetails) -> Iterator[str]:
    if trial.imported_from is not None:
        return  # another program trained it
    try:
        revision = get_method(trial.method).revision
    except UnknownMethodError:
        return  # loading sweep.yaml reports this
    if revision != trial.revision:
        yield (
            f"The method {trial.method!r} is at revision {revision} here, and the trial was of "
            f"revision {trial.revision}: only the code of that time gives it again."
        )


def _describe_places(sweep: Mapping[str, Any]) -> Iterator[str]:
    # A lab's own dev sets are in the folder, or reported as missing elsewhere.
    read = {name: value for name, value in sweep.items() if name != "dev"}
    for path in dict.fromkeys(local_places(read)):
        if "://" in path or Path(path).expanduser().exists():
            yield f"It reads {path}, which must have the same content."
        else:
            yield f"It reads {path}, which is not here; sweep.yaml names it."
