"""Which code and packages a trial ran with, and how they can be had again."""

from dataclasses import dataclass

from cse_platform.leaderboard.query.trials.details_record import SweepStart, TrialDetails
from cse_platform.tracking.code_state import can_be_applied
from cse_platform.tracking.provenance import SWEEP_PACKAGES

OURS = "cse-platform"
"""This package, among the distributions."""


@dataclass(frozen=True)
class Repository:
    """A checkout that code was run from."""

    commit: str
    remote: str | None
    """URL of origin; None where it is unknown or its password hidden."""
    dirty: bool
    diff: str | None
    """What it differed by from the commit; None where it did not, or nobody recorded it."""

    @property
    def can_be_had(self) -> bool:
        return not self.dirty or (self.diff is not None and can_be_applied(self.diff))


@dataclass(frozen=True)
class Code:
    """What a trial ran with, as far as it is known."""

    python: str | None
    packages: dict[str, str]
    """Versions by name; this package's too, unless it ran from a checkout."""
    whole: bool
    """Whether `packages` is everything that was installed."""
    package: Repository | None
    """This package's checkout; None where it was installed, or nobody knows."""
    user: Repository | None
    """The repository that the sweep was started in, where it is another one."""
    method: Repository | None
    """That of the method's own package; None where it had none, or the method is one of ours."""

    @property
    def installed(self) -> bool:
        """Whether this package is among the packages, as a release."""
        return OURS in self.packages


def code_of_trial(trial: TrialDetails) -> Code:
    """The code at the start of the sweep that a trial ran under; nothing where none is known."""
    start = trial.starts[0] if trial.starts else None
    facts = start.provenance if start else {}
    package, user, method = (_repository(start, name) for name in ("package", "git", "method"))
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
    """The packages as pip takes them; of a build such as 2.9.0+cpu the version alone is asked.

    `carried` is the package whose source lies in the folder.
    """
    head = [f"# Python {code.python}"] if code.python else []
    asked = sorted((name, found) for name, found in code.packages.items() if name != carried)
    lines = [_requirement(name, found) for name, found in asked]
    return "\n".join([*head, *lines]) + "\n"


def _requirement(name: str, version: str) -> str:
    # Builds with a local version are in no index that pip asks by itself.
    public, _, build = version.partition("+")
    return f"{name}=={public}" + (f"  # it was {version}" if build else "")


def _repository(start: SweepStart | None, name: str) -> Repository | None:
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
