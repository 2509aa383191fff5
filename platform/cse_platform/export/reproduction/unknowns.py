"""The reasons why a trial may give other results when it is run again, one sentence each."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cse_methods.errors import UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.export.reproduction.code import OURS, Code, Repository
from cse_platform.export.reproduction.sweep_file import local_places
from cse_platform.leaderboard.query.trials.details_record import TrialDetails


def unknowns(trial: TrialDetails, code: Code, sweep: Mapping[str, Any]) -> list[str]:
    """What is unknown, missing or different; `sweep` is the sweep file of this trial alone."""
    return [
        *_about_sweep_file(trial),
        *_about_packages(code),
        *_about_code(code),
        *_about_interruptions(trial),
        *_about_end(trial),
        *_about_method(trial),
        *_about_places(sweep),
    ]


def _about_sweep_file(trial: TrialDetails) -> Iterator[str]:
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


def _about_packages(code: Code) -> Iterator[str]:
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


def _about_code(code: Code) -> Iterator[str]:
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
        place = f" of {code.user.remote}" if code.user.remote else ""
        changed = ", with code.diff on top" if code.user.diff else ""
        yield (
            f"The sweep was started in another repository, at commit {code.user.commit}{place}"
            f"{changed}. If the method or a file is from there, check it out and install it: "
            "reproduce.sh does not."
        )
        yield from about_repository(code.user, "That repository", "code")


def about_repository(repository: Repository, whose: str, name: str) -> Iterator[str]:
    """What of a repository's changes, `name`.diff, is not known whole."""
    if repository.dirty and repository.diff is None:
        yield f"{whose} had changes beside commit {repository.commit}, and nobody recorded them."
    elif not repository.can_be_had:
        yield (
            f"{whose} had more changes than were recorded whole: {name}.diff cannot be applied, "
            "and its last line says why."
        )


def _about_interruptions(trial: TrialDetails) -> Iterator[str]:
    if any(_differs(trial, place) for place in range(1, len(trial.starts))):
        yield (
            "It was cut off and went on with other code or packages than it began with; "
            "trial.json has both under starts."
        )


def _differs(trial: TrialDetails, place: int) -> bool:
    """Whether a later start had other code or other packages than the first."""
    first, later = trial.starts[0], trial.starts[place]
    names = ("git_commit", "package_commit")
    commits = [[start.provenance.get(name) for name in names] for start in (first, later)]
    same = (first.packages, first.diffs) == (later.packages, later.diffs)
    return commits[0] != commits[1] or not same


def _about_end(trial: TrialDetails) -> Iterator[str]:
    last = trial.curve[-1].step if trial.curve else None
    reached = "before its first dev point" if last is None else f"after step {last}"
    match trial.state:
        case "PRUNED":
            yield f"It was pruned {reached}; here it goes on to its end."
        case "RUNNING":
            yield f"It is not finished: the leaderboard has it {reached}."
        case "FAIL":
            yield f"It failed {reached}: {trial.error}"


def _about_method(trial: TrialDetails) -> Iterator[str]:
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


def _about_places(sweep: Mapping[str, Any]) -> Iterator[str]:
    # Own dev sets lie in the folder, or are said to be missing there.
    read = {name: value for name, value in sweep.items() if name != "dev"}
    for place in dict.fromkeys(local_places(read)):
        if "://" in place or Path(place).expanduser().exists():
            yield f"It reads {place}, which must have the same content."
        else:
            yield f"It reads {place}, which is not here; sweep.yaml names it."
