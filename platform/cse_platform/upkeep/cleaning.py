"""Remove by age what is no longer needed: messages, old leaderboards that a rebuild has kept,
submitted jobs, Ray's session folders, and files of the machine's cache.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path

from sqlalchemy import delete, func, select

from cse_methods.files.cache import CACHE_KINDS, cache_entries, last_used
from cse_platform.databases import sqlite_file
from cse_platform.errors import SweepRefusedError
from cse_platform.numbers import format_size
from cse_platform.safe_paths import delete_below
from cse_platform.secrets import mask_url
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import DriverMessageRecord, SweepRecord, SweepStartRecord
from cse_platform.sweep.stores import ray_temporary_folder
from cse_platform.upkeep.deletion import folder_size


@dataclass(frozen=True)
class Cleaning:
    """What is older than a limit and can be removed. No path has a link above its last name."""

    url: str
    """URL of the leaderboard."""
    before: datetime
    messages: int
    paths: Mapping[str, Sequence[Path]]
    """Files and folders, by their kind in words."""

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """What is removed, as rows: what it is, how much, and where."""
        parts = [("messages", str(self.messages), mask_url(self.url))] if self.messages else []
        for kind, paths in self.paths.items():
            if paths:
                size = sum(folder_size(p) if p.is_dir() else p.stat().st_size for p in paths)
                folder = os.path.commonpath([path.parent for path in paths])
                parts.append((kind, f"{len(paths)}, {format_size(size)}", folder))
        return parts

    def carry_out(self, board: Store | None) -> list[Path]:
        """Remove all of it. Returns the files and folders that could not be removed."""
        if board is not None:
            with board.writing() as session:
                old = DriverMessageRecord.time < self.before
                session.execute(delete(DriverMessageRecord).where(old))
        every = [path for paths in self.paths.values() for path in paths]
        for path in every:
            # It belongs to another user, is gone already, or a link now leads elsewhere.
            with suppress(OSError, SweepRefusedError):
                delete_below(str(path.parent), str(path))
        return [path for path in every if path.exists()]


def plan_cleaning(board: Store | None, url: str, *, runs: Path, older_than: float) -> Cleaning:
    """Find what has not been used for `older_than` seconds, without changing anything.

    Args:
        board: the leaderboard; None if there is none.
        url: the URL of the leaderboard.
        runs: the runs folder with the submitted jobs.
        older_than: the limit in seconds.

    Raises SweepRefusedError if the folder of the submitted jobs is a link.
    """
    limit = time.time() - older_than
    before = datetime.fromtimestamp(limit, UTC)
    messages, needed = 0, set[str]()
    if board is not None:
        with board.session() as session:
            old = DriverMessageRecord.time < before
            messages = session.scalar(select(func.count()).where(old)) or 0
            query = (
                select(SweepRecord.id, SweepStartRecord.provenance)
                .join(SweepRecord.starts)
                .where(SweepRecord.state != "COMPLETE")
                .order_by(SweepStartRecord.started)
            )
            last = {sweep: facts.get("job") for sweep, facts in session.execute(query)}
            needed = {job for job in last.values() if isinstance(job, str)}
    replaced = list[Path]()
    if url.startswith("sqlite"):
        file = sqlite_file(url).resolve()
        # The inode's change time is when the file got its name; its content may be older.
        replaced = [
            kept
            for kept in sorted(file.parent.glob(f"{escape(file.name)}.before-*"))
            if kept.lstat().st_ctime < limit
        ]
    submitted = runs.resolve() / "submitted"
    if submitted.is_symlink():
        raise SweepRefusedError(
            f"{submitted} is a link to something that may belong to somebody else, so nothing is "
            "removed; replace it by the folder itself, or remove it"
        )
    jobs = [
        job
        for job in sorted(submitted.glob("*/"))
        # Use the inode's change time, because the modification times were copied with the job.
        if max(path.lstat().st_ctime for path in (job, *job.iterdir())) < limit
        and job.name not in needed
    ]
    sessions = list[Path]()
    for left in sorted((ray_temporary_folder() / "ray").resolve().glob("session_*_*")):
        if not left.is_symlink() and left.stat().st_uid == os.getuid():  # it is this user's
            with suppress(FileNotFoundError):  # another process is removing it
                if max(file.lstat().st_mtime for file in (left, *left.rglob("*"))) < limit:
                    sessions.append(left)
    cached = [
        entry.parent.resolve() / entry.name
        for kind in CACHE_KINDS
        for entry in cache_entries(kind)
        if last_used(entry) < limit
    ]
    paths = {
        "replaced leaderboards": replaced,
        "submitted jobs": jobs,
        "session folders of Ray": sessions,
        "cached files": cached,
    }
    return Cleaning(url, before, messages, paths)
