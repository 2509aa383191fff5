"""The code that a sweep runs: commit, origin and uncommitted changes of a git repository."""

import os
import subprocess
from pathlib import Path

MAX_DIFF_BYTES = 2**20
NOT_WHOLE = "### not whole: "
"""How the last line of a diff begins that cannot be applied; no diff has such a line itself."""

_TIMEOUT_SECONDS = 10
# Whatever a user has configured: colours, other prefixes and filters make a diff that git cannot
# apply.
_DIFF = (
    *("diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-relative", "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=dirty"),
)


def git_state(folder: Path) -> dict[str, str]:
    """`commit`, `dirty` and `remote` of the repository around the folder; nothing outside of one.

    `dirty` is "true" when tracked files differ from the commit. `remote` is the URL of `origin`,
    left out where there is none; it can hold a password.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if not commit or status is None:
        return {}
    remote = _git(folder, "remote", "get-url", "origin")
    state = {"commit": commit, "dirty": "true" if status else "false"}
    return state | ({"remote": remote} if remote else {})


def git_diff(folder: Path) -> str | None:
    """What tracked files differ by from the commit, as `git apply` takes it; None if nothing.

    One that is longer than `MAX_DIFF_BYTES` is cut, and one that is not UTF-8 loses characters;
    either then ends in a line that begins with `NOT_WHOLE`.
    """
    diff = _bytes("git", "-C", str(folder), *_DIFF)
    if not diff:
        return None
    kept = diff[:MAX_DIFF_BYTES].decode("utf-8", "replace")
    if kept.encode() == diff:
        return kept
    reason = (
        f"{len(diff)} bytes, cut after {MAX_DIFF_BYTES}"
        if len(diff) > MAX_DIFF_BYTES
        else "it is not UTF-8, and characters were replaced"
    )
    return f"{kept}\n{NOT_WHOLE}{reason}\n"


def can_be_applied(diff: str) -> bool:
    """Whether a diff of `git_diff` can be applied."""
    return not diff.rstrip("\n").rpartition("\n")[2].startswith(NOT_WHOLE)


def is_tracked(file: Path) -> bool:
    """Whether git knows the file: an installed copy can lie in a venv in someone's repository."""
    return bool(_git(file.parent, "ls-files", "--error-unmatch", file.name))


def command_output(*command: str) -> str | None:
    """What the command prints, without white space around; None if it fails or does not exist."""
    output = _bytes(*command)
    return None if output is None else output.decode("utf-8", "replace").strip()


def _git(folder: Path, *arguments: str) -> str | None:
    return command_output("git", "-C", str(folder), *arguments)


def _bytes(*command: str) -> bytes | None:
    # Without locks: another git may be at work in the same repository.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, env=environment, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
