"""The best checkpoints, kept; everything else of a finished trial's disk space, given back.

Places are local paths or URIs of an object store, as Ray's `storage_path` takes them.
"""

import logging
from pathlib import Path

from pyarrow.fs import FileSystem, FileType, LocalFileSystem, copy_files

from cse_methods.checkpoint import BEST

log = logging.getLogger(__name__)


def filesystem(place: str) -> tuple[FileSystem, str]:
    """The file system of a local path or URI, and the path on it."""
    if "://" in place:
        found: tuple[FileSystem, str] = FileSystem.from_uri(place)
        return found
    return LocalFileSystem(), str(Path(place).absolute())


def exists(place: str) -> bool:
    """Whether there is a folder at that place."""
    files, path = filesystem(place)
    return bool(files.get_file_info(path).type == FileType.Directory)


def keep_model(checkpoint: str, target: str) -> str | None:
    """Copy the best encoder out of a trial's last checkpoint; None if it cannot be had.

    Args:
        checkpoint: the last checkpoint of a complete trial.
        target: the folder that keeps the model, in sentence-transformers layout.
    """
    source_files, source = filesystem(checkpoint)
    target_files, folder = filesystem(target)
    try:
        target_files.create_dir(folder, recursive=True)
        copy_files(
            f"{source}/{BEST}",
            folder,
            source_filesystem=source_files,
            destination_filesystem=target_files,
        )
    except OSError as error:
        log.warning("the best checkpoint in %s cannot be kept: %s", checkpoint, error)
        return None
    return target


def give_back(place: str) -> None:
    """Delete a folder, if it is there."""
    files, path = filesystem(place)
    if exists(place):
        files.delete_dir(path)
