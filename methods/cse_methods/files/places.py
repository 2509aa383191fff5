"""Places: local paths, and URIs of object stores as pyarrow reads them, such as s3://bucket/key."""

import shutil
from pathlib import Path

from filelock import FileLock
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, copy_files

from cse_methods.files.cache import cache_folder, cache_key


def is_remote(location: str) -> bool:
    """Return True if a place is the URI of an object store, and False for a local path."""
    return "://" in location


def filesystem(location: str) -> tuple[FileSystem, str]:
    """Return the file system of a local path or URI, and the path on it.

    Raises:
        OSError, ValueError: for a URI that names no file system.
    """
    if is_remote(location):
        parsed: tuple[FileSystem, str] = FileSystem.from_uri(location)
        return parsed
    return LocalFileSystem(), str(Path(location).absolute())


def find_copy(uri: str) -> Path | None:
    """Return the local folder with a copy of what the URI holds now; None if there is none yet.

    OSError if the URI holds nothing, or nobody answers.
    """
    folder = _name_copy(uri)
    return folder if folder.is_dir() else None


def fetch_copy(uri: str) -> Path:
    """Return the local folder with a copy of what the URI holds now, and copy it if needed.

    One process copies while the others wait. Raises OSError as `find_copy`.
    """
    folder = _name_copy(uri)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            files, path = filesystem(uri)
            copy_files(path, str(partial), source_filesystem=files)
            partial.rename(folder)
    return folder


def _name_copy(uri: str) -> Path:
    """Name the folder of a copy by the files at the URI with their sizes and times."""
    files, path = filesystem(uri)
    versions = [
        (file.path, file.size, file.mtime_ns)
        for file in files.get_file_info(FileSelector(path, recursive=True))
        if file.type == FileType.File
    ]
    root = cache_folder("copies")
    root.mkdir(parents=True, exist_ok=True)
    return root / cache_key({"files": sorted(versions)})
