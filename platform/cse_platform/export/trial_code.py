"""Shows the code that a trial ran, and how it differs from another trial's."""

from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from cse_methods.registry import own_methods
from cse_platform.errors import NotFoundError
from cse_platform.export.reproduction.code import OURS, Code, Repository, code_of_trial
from cse_platform.export.reproduction.method_source import find_kept_code
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.tracking.method_code import METHOD_SOURCE


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
    code, kept = code_of_trial(trial), find_kept_code(trial, runs=runs)
    if kept is None and trial.starts and METHOD_SOURCE in trial.starts[0].provenance:
        raise NotFoundError(
            f"the source of {trial.method!r} that trial {trial.key[:8]} ran is not here: it lies "
            f"beside the journal of its sweep, in {trial.journal_places}; give the command there, "
            f"or copy the folder `code` from there to {trial.journal_folders(runs)[-1]}"
        )
    repositories = {"package": code.package, "method": code.method, "code": code.user}
    diffs = {f"{name}.diff": repo.diff for name, repo in repositories.items() if repo}
    versions = [*_name_own_package(code), *_name_repository(code.user, "the sweep's folder")]
    if trial.configuration.code is not None:
        versions.append(f"the code of {trial.method} has the hash {trial.configuration.code}")
    if kept is not None:
        versions.append(f"{kept.package} {kept.version}, whose files follow")
        versions += [f"secrets in {name} are hidden" for name in kept.masked]
        versions += [f"{name} is not kept, because {why}" for name, why in kept.left_out.items()]
        diffs.pop("method.diff", None)  # the files include its changes
    elif trial.method not in own_methods():
        whose = f"the method {trial.method!r}"
        versions += _name_repository(code.method, whose) or [f"{whose}: no source of it was kept"]
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


def _name_own_package(code: Code) -> list[str]:
    if code.package is not None:
        return _name_repository(code.package, OURS)
    if code.installed:
        return [f"{OURS} {code.packages[OURS]}"]
    return [f"{OURS}: neither commit nor version is known"]


def _name_repository(repository: Repository | None, whose: str) -> list[str]:
    """Describe the commit of a repository; empty without a repository."""
    if repository is None:
        return []
    origin = f" of {repository.remote}" if repository.remote else ""
    changes = "" if not repository.dirty else ", with changes"
    unknown = " that nobody recorded" if changes and not repository.diff else ""
    return [f"{whose} at commit {repository.commit}{origin}{changes}{unknown}"]
