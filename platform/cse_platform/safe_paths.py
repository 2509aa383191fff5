"""Decide which names and locations from elsewhere may be written, deleted or followed.

Journals, databases, bundles of code and model folders come from other people, or are copies beside
their original. A name in them is written only below a folder of ours (`write_below`); a location
in them is ours only if it lies below such a folder once links are resolved (`find_below`); and
what a link leads to is neither read, written nor deleted (`find_link`).
"""

import logging
import os
import shutil
import stat
from pathlib import Path
from urllib.parse import unquote

from pyarrow.fs import FileType, LocalFileSystem

from cse_methods.files.places import filesystem, is_remote
from cse_platform.errors import OutputError, SweepRefusedError
from cse_platform.secrets import mask_text, mask_url

_log = logging.getLogger(__name__)

_NAME_BYTES = 255
"""The length of the longest name that all file systems take."""


def is_name_below(name: str) -> bool:
    """Whether a name from elsewhere names a file below whichever folder it is written to.

    It is one or more names, joined by `/`, that every file system takes and every terminal shows.
    """
    return all(
        part not in ("", ".", "..")
        and part == part.strip()
        and part.isprintable()
        and "\\" not in part
        and len(part.encode()) <= _NAME_BYTES
        for part in name.split("/")
    )


def write_below(folder: Path, name: str, content: bytes) -> None:
    """Write a new file below a folder, with the folders between them.

    Raises OutputError if the name leads elsewhere, is taken, or cannot be written.
    """
    if not is_name_below(name):
        raise OutputError(f"{name!r} is not the name of a file below {folder}: nothing is written")
    file = folder / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(content)
    except OSError as error:
        raise OutputError(f"{file} cannot be written: {error.strerror}") from error


def find_link(path: str | Path, *, below: str | Path | None = None) -> Path | None:
    """Find the first link among a file or folder on this machine and all that lies below it.

    With `below`, a folder above, links between the two count as well; those that lead to that
    folder are its user's own. Pipes, sockets and devices count as links, because what they lead to
    is no content of a folder either.

    Returns None if there is none, or nothing at all. Raises OSError if a folder is unreadable.
    """
    path = Path(path)
    if below is not None:
        expected = Path(os.path.realpath(below), path.relative_to(below))
        if os.path.realpath(path) != str(expected):
            return path
    try:
        mode = path.lstat().st_mode
        inside = sorted(path.iterdir()) if stat.S_ISDIR(mode) else []
    except (FileNotFoundError, NotADirectoryError):  # it may have just gone
        return None
    if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        return next(filter(None, map(find_link, inside)), None)
    return path


def delete_below(folder: str, location: str) -> None:
    """Delete a file or folder below another folder; nothing happens if it does not exist.

    Args:
        folder: a path without links, as `resolve_links` returns it, or a URI.
        location: what to delete; of a link, only the link is deleted.

    Raises:
        SweepRefusedError: if the location does not lie below the folder once links are resolved.
        OSError, ValueError: if it cannot be deleted; of a local folder, what can be is deleted.
    """
    if (resolved := find_below(folder, location)) is None:
        raise SweepRefusedError(
            f"{mask_url(location)} was not deleted: it is outside {mask_url(folder)} or behind "
            "a link, so it may belong to somebody else."
        )
    files, path = filesystem(resolved)
    if isinstance(files, LocalFileSystem):
        local = Path(path)
        if local.is_dir() and not local.is_symlink():
            problems: list[BaseException] = []
            shutil.rmtree(local, onerror=lambda _call, _path, raised: problems.append(raised[1]))
            if problems:
                raise problems[0]
        else:
            local.unlink(missing_ok=True)
    elif (kind := files.get_file_info(path).type) == FileType.Directory:
        files.delete_dir(path)
    elif kind == FileType.File:
        files.delete_file(path)


def find_below(folder: str, location: str) -> str | None:
    """Resolve the links of a location, but for its last name; None if it is not below a folder.

    The folder is as for `delete_below`.
    """
    try:
        above, name = os.path.split(location)
        resolved = f"{resolve_links(above)}/{name}"
    except (OSError, ValueError):  # such as for a null character
        return None
    if not resolved.startswith(f"{folder}/"):
        return None
    below = resolved.removeprefix(f"{folder}/")
    if is_remote(resolved):
        below = unquote(below)
        if "?" in below or "#" in below:  # they would change which store is meant
            return None
    return None if {"", ".", ".."}.intersection(below.split("/")) else resolved


def resolve_links(location: str) -> str:
    """Resolve the links of a local path; the URI of an object store stays as it is."""
    if is_remote(location) and not location.startswith("file:"):
        return location
    return os.path.realpath(filesystem(location)[1])


def try_to_delete(folder: str, location: str) -> None:
    """Delete as `delete_below` does; warn if that is not possible."""
    try:
        delete_below(folder, location)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be deleted: %s", mask_url(location), mask_text(str(error)))
    except SweepRefusedError as error:
        _log.warning("%s", error)
