"""Painters: whoever makes pictures of a sweep. The platform makes none, and finds them installed.

A painter is an entry point of the group `cse_platform.painters`.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol

from cse_platform.errors import PaintingError

GROUP = "cse_platform.painters"
NICENESS = 10
"""Trials on the same machine go first."""
FAILED = 3
"""Exit code where some painters failed; Python's own is 1."""


class Painter(Protocol):
    """Makes pictures of a sweep."""

    def __call__(self, url: str, sweep: str, folder: Path, *, whole: bool) -> None:
        """Write files that a browser shows, each without a network and without another file.

        Args:
            url: of the leaderboard that holds the sweep; it can hold a password.
            sweep: its name.
            folder: empty.
            whole: everything there is to see; else what is worth seeing while the sweep runs.
        """


class Painting:
    """All painters at work on one sweep, in a process of their own that can be stopped.

    What they compute does not hold the caller, who may be driving trials.
    """

    def __init__(self, url: str, sweep: str, folder: Path, *, whole: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cse_platform.painters"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C is the caller's to deal with
        )
        # Through the pipe: everyone can see a process's arguments.
        self._asked = json.dumps([url, sweep, str(folder), whole])

    def wait(self, seconds: float) -> str:
        """Wait for all of them.

        Returns:
            What went wrong with some of them, empty if nothing did; the others have painted.

        Raises:
            PaintingError: if they were ended, or took longer; files may be unfinished.
        """
        try:
            _, said = self._process.communicate(self._asked, timeout=seconds)
        except subprocess.TimeoutExpired as late:
            self.end()
            raise PaintingError(f"the painters took longer than {seconds:g} s") from late
        if self._process.returncode not in (0, FAILED):
            last = said.strip().splitlines()[-1:] or ["without a word"]
            raise PaintingError(f"the painters were ended: {last[0]}")
        return said.strip().splitlines()[-1] if self._process.returncode else ""

    def end(self) -> None:
        """End them, wherever they are."""
        self._process.kill()


def painters() -> list[EntryPoint]:
    """Those that are installed, by name."""
    return sorted(entry_points(group=GROUP), key=lambda one: one.name)


def main() -> None:
    """Let every painter paint what standard input asks for; the last line says who failed."""
    os.nice(NICENESS)
    url, sweep, folder, whole = json.load(sys.stdin)
    problems = []
    for entry in painters():
        try:
            entry.load()(url, sweep, Path(folder), whole=whole)
        except Exception as error:  # another's code: whatever it raises, the others paint
            why = " ".join(str(error).split()) or type(error).__name__
            problems.append(f"painter {entry.name!r}: {why}")
    if problems:
        sys.stderr.write("\n" + "; ".join(problems))
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
