"""Put the files of SQLite databases in their places."""

from pathlib import Path


def put_database(part: Path, file: Path) -> None:
    """Move a complete SQLite database to its place, without what a former one has left there.

    SQLite would apply the log or journal of a deleted database to the new one, and break it.
    """
    for end in ("-journal", "-wal", "-shm"):
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
    part.replace(file)
