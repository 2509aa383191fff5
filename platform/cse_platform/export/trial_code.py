"""Finds the code that a trial ran, shows it, and compares it with another trial's."""

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from cse_methods.registry import own_methods
from cse_platform.errors import NotFoundError
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.tracking.method_code import METHOD_SOURCE, MethodCode, read_method_code
from cse_platform.tracking.provenance import SWEEP_PACKAGES

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

    def describe(self, whose: str) -> str:
        """Describe the commit, and whether there were changes beside it."""
        origin = f" of {self.remote}" if self.remote else ""
        unknown = " that nobody recorded" if self.dirty and not self.diff else ""
        changes = f", with changes{unknown}" if self.dirty else ""
        return f"{whose} at commit {self.commit}{origin}{changes}"


def repositories_of(trial: TrialDetails) -> dict[str, Repository]:
    """Find the checkouts of a trial's code, as far as they are known.

    These are `package`, this package's; `method`, that of another package's method; `code`, in
    which the sweep was started, if it is a different one.
    """
    found: dict[str, Repository] = {}
    start = trial.starts[0] if trial.starts else None
    for name, key in (("package", "package"), ("method", "method"), ("code", "git")):
        if start is None or (commit := start.provenance.get(f"{key}_commit")) is None:
            continue
        remote = start.provenance.get(f"{key}_remote")
        repository = Repository(
            commit=commit,
            remote=None if remote is None or "***" in remote else remote,
            dirty=start.provenance.get(f"{key}_dirty") == "true",
            diff=start.diffs.get(key),
        )
        if name != "code" or repository not in found.values():
            found[name] = repository
    return found


def packages_of(trial: TrialDetails) -> dict[str, str]:
    """Find the versions of packages that a trial ran with, this one's unless it was a checkout."""
    if not trial.starts:
        return {}
    facts = trial.starts[0].provenance
    known = {name: facts[name] for name in SWEEP_PACKAGES if name in facts}
    found = dict(trial.starts[0].packages) or known
    return {n: v for n, v in found.items() if n != OURS or "package_commit" not in facts}


def find_kept_code(trial: TrialDetails, *, runs: Path) -> MethodCode | None:
    """Find the source of a trial's method that its sweep has kept; None if it is not here.

    Raises JournalError if it is damaged.
    """
    sha256 = trial.starts[0].provenance.get(METHOD_SOURCE) if trial.starts else None
    return None if sha256 is None else read_method_code(trial.journal_folders(runs), sha256)


@dataclass(frozen=True)
class TrialCode:
    """The code of one trial, as far as it is kept."""

    trial: str
    """The first digits of its key."""
    hash: str | None
    """The hash of its method's code; None if unknown."""
    versions: tuple[str, ...]
    """Sentences that identify, by version and commit, the code that is not in `texts`."""
    texts: dict[str, str]
    """The method's own files, and the diff of each repository against its commit, by name."""


def trial_code(trial: TrialDetails, *, runs: Path) -> TrialCode:
    """Collect the code of a trial.

    `runs` is a runs folder that may have the journal of its sweep. Raises NotFoundError if its
    sweep has kept the source of its method in a folder that is not here; JournalError if that is
    damaged.
    """
    kept = find_kept_code(trial, runs=runs)
    repositories, packages = repositories_of(trial), packages_of(trial)
    if kept is None and trial.starts and METHOD_SOURCE in trial.starts[0].provenance:
        raise NotFoundError(
            f"the source of {trial.method!r} that trial {trial.key[:8]} ran is not here: it lies "
            f"beside the journal of its sweep, in {trial.journal_places}; give the command there, "
            f"or copy the folder `code` from there to {[*trial.journal_folders(runs)][-1]}"
        )
    diffs = {f"{name}.diff": one.diff for name, one in repositories.items()}
    ours = f"{OURS} {packages[OURS]}" if OURS in packages else f"{OURS}: its commit is not known"
    whose = {"package": OURS, "code": "the sweep's folder"}
    named = {n: one.describe(whose[n]) for n, one in repositories.items() if n in whose}
    versions = list(({"package": ours} | named).values())
    if trial.configuration.code is not None:
        versions.append(f"the code of {trial.method} has the hash {trial.configuration.code}")
    if kept is not None:
        versions.append(f"{kept.package} {kept.version}, whose files follow")
        versions += [f"secrets in {name} are hidden" for name in kept.masked]
        versions += [f"{name} is not kept, because {why}" for name, why in kept.left_out.items()]
        diffs.pop("method.diff", None)  # the files include its changes
    elif trial.method not in own_methods():
        method = repositories.get("method")
        own = f"the method {trial.method!r}"
        versions.append(method.describe(own) if method else f"{own}: no source of it was kept")
    return TrialCode(
        trial.key[:8],
        trial.configuration.code,
        tuple(versions),
        {**(kept.files if kept else {}), **{name: text for name, text in diffs.items() if text}},
    )


def format_code(code: TrialCode) -> str:
    """Format a trial's code as one text: the versions, then each file under its name."""
    lines = [f"# {line}" for line in code.versions]
    files = [f"==> {name} <==\n{text.rstrip()}" for name, text in code.texts.items()]
    return "\n\n".join(filter(None, ["\n".join(lines), *files])) + "\n"


def format_code_changes(before: TrialCode, after: TrialCode) -> str:
    """Format the differences between two trials' code as `diff` does.

    Differences of versions come first. If nothing recorded differs, the text says so.
    """
    old, new = (
        {"": "".join(f"# {line}\n" for line in code.versions), **code.texts}
        for code in (before, after)
    )
    changes = "".join(
        line if line.endswith("\n") else f"{line}\n"
        for name in dict.fromkeys((*old, *new))
        for line in unified_diff(
            old.get(name, "").splitlines(keepends=True),
            new.get(name, "").splitlines(keepends=True),
            f"{before.trial}/{name or 'versions'}",
            f"{after.trial}/{name or 'versions'}",
        )
    )
    both = f"{after.trial} and {before.trial}"
    if changes:
        return changes
    if after.hash is None:
        return f"nothing that is recorded of the code of {both} differs\n"
    return f"{both} ran the same code\n"
