"""Fills a data folder from the hub: SentEval's evaluation files and the papers' corpus."""

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from filelock import FileLock

from cse_methods.data.check import check_corpora, check_files
from cse_methods.data.corpora import KNOWN
from cse_methods.data.manifest import manifest
from cse_methods.data.source import HubFile
from cse_methods.errors import DataError
from cse_methods.files.cache import cache_folder, written_whole

ARCHIVE = HubFile("princeton-nlp/datasets-for-simcse", "senteval.tar", "main")
"""The archive published by the SimCSE group; the folders of `downstream/` are at its top level."""
CORPUS = "wiki1m"


def fetch_senteval(target: Path | None = None) -> Path:
    """Fill a data folder with SentEval's files from the hub, and return its path.

    Nothing is fetched if nothing is missing. In a given `target`, files that are missing or have a
    wrong count are written. The default is a folder of the cache, where files are written
    atomically and only missing ones are fetched. Files that the archive lacks stay missing;
    `check_folder` and the readers report them.

    DataError if the archive cannot be fetched or read, or the folder cannot be written.
    """
    if target is None:
        # No file is opened: a trial may call this for its training data, and must open no test set.
        folder = cache_folder("senteval")
        wanted = {path for path in manifest() if not (folder / path).is_file()}
    else:
        folder = target
        wanted = {check.path for check in check_files(folder) if check.lacking}
    if wanted:
        _extract_files(ARCHIVE.fetch(), folder, wanted)
    return folder


def fetch_corpus(target: Path) -> Path:
    """Write wiki1m to a data folder, unless a complete copy is there, and return the file."""
    known = KNOWN[CORPUS]
    for check in check_corpora(target):
        if Path(check.path).name in known.local_names and not check.lacking:
            return target / check.path
    source, file = known.hub[0].fetch(), target / "corpus" / known.local_names[0]
    with _lock_folder(target) as partial, source.open("rb") as stream:
        _write_file(stream, file, partial)
    return file


def missing_senteval() -> list[str]:
    """Describe what `fetch_senteval` would fetch, without fetching it."""
    whole = all((cache_folder("senteval") / path).is_file() for path in manifest())
    return [] if whole or ARCHIVE.cached else [f"SentEval's files ({ARCHIVE.repository})"]


def _extract_files(archive: Path, folder: Path, wanted: set[str]) -> None:
    """Write each wanted file from the first regular member whose path ends in the file's path."""
    left = {f"/{path.removeprefix('downstream/')}": path for path in wanted}
    try:
        with _lock_folder(folder) as partial, tarfile.open(archive, "r:") as tar:
            for member in tar:
                ending = next((e for e in left if f"/{member.name}".endswith(e)), None)
                stream = tar.extractfile(member) if ending and member.isfile() else None
                if ending and stream:
                    # Paths come from the manifest: a member cannot write outside the folder.
                    _write_file(stream, folder / left.pop(ending), partial)
    except tarfile.TarError as error:
        # The cached file is a link: name its target, or deleting it would not remove the bytes.
        raise DataError(
            f"{archive.resolve()}: incomplete tar file ({error}); delete it and fetch it again"
        ) from error


@contextmanager
def _lock_folder(folder: Path) -> Iterator[Path]:
    """Lock a folder so that one process at a time fills it; yield a path for unfinished files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield folder / ".partial"
    except OSError as error:
        raise DataError(
            f"cannot write to {folder}: {error.strerror or error}; free space there, or name "
            "another folder (CSE_CACHE names that of the cache)"
        ) from error


def _write_file(content: IO[bytes], file: Path, partial: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(file, partial) as stream:
        shutil.copyfileobj(content, stream)
