"""A data folder filled from the hub: SentEval's evaluation files and the papers' corpus."""

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
"""What the SimCSE group publishes: the folders of `downstream/`, at its top."""
CORPUS = "wiki1m"


def fetch_senteval(target: Path | None = None) -> Path:
    """Fill a data folder with SentEval's files from the hub, and return it.

    Without need, nothing is fetched. In a `target` of one's own, files that are missing or have a
    wrong count are written; by default it is a folder of the cache, whose files are whole or
    absent. Files that the archive itself lacks stay missing; `check_folder` and the readers report
    them.

    Raises:
        DataError: if the archive cannot be fetched or read, or the folder cannot be written.
    """
    if target is None:
        # Not looked into: a trial may come here for its training data, and must open no test set.
        folder = cache_folder("senteval")
        wanted = {path for path in manifest() if not (folder / path).is_file()}
    else:
        folder = target
        wanted = {check.path for check in check_files(folder) if check.lacking}
    if wanted:
        _extract(ARCHIVE.fetch(), folder, wanted)
    return folder


def fetch_corpus(target: Path) -> Path:
    """Put wiki1m into a data folder, unless it has it whole, and return the file."""
    known = KNOWN[CORPUS]
    for check in check_corpora(target):
        if Path(check.path).name in known.local_names and not check.lacking:
            return target / check.path
    source, file = known.hub[0].fetch(), target / "corpus" / known.local_names[0]
    with _filling(target) as partial, source.open("rb") as stream:
        _write(stream, file, partial)
    return file


def missing_senteval() -> list[str]:
    """Describe what `fetch_senteval` would fetch, and fetch nothing."""
    whole = all((cache_folder("senteval") / path).is_file() for path in manifest())
    return [] if whole or ARCHIVE.cached else [f"SentEval's files ({ARCHIVE.repository})"]


def _extract(archive: Path, folder: Path, wanted: set[str]) -> None:
    """Write the wanted files, each from the first plain member whose path ends as theirs does."""
    left = {f"/{path.removeprefix('downstream/')}": path for path in wanted}
    try:
        with _filling(folder) as partial, tarfile.open(archive, "r:") as tar:
            for member in tar:
                ending = next((e for e in left if f"/{member.name}".endswith(e)), None)
                stream = tar.extractfile(member) if ending and member.isfile() else None
                if ending and stream:
                    # The path is ours, never the member's: nothing can land outside the folder.
                    _write(stream, folder / left.pop(ending), partial)
    except tarfile.TarError as error:
        # Of a file in the hub's cache: what its link leads to, or the same bytes come back.
        raise DataError(
            f"{archive.resolve()}: not a whole tar file ({error}); delete it and fetch it again"
        ) from error


@contextmanager
def _filling(folder: Path) -> Iterator[Path]:
    """Lock a folder, so that one process at a time fills it; yield a place for unfinished files."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield folder / ".partial"
    except OSError as error:
        raise DataError(
            f"cannot write to {folder}: {error.strerror or error}; free space there, or name "
            "another folder (CSE_CACHE names that of the cache)"
        ) from error


def _write(content: IO[bytes], file: Path, partial: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(file, partial) as stream:
        shutil.copyfileobj(content, stream)
