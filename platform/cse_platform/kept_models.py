"""Keep the best checkpoint of a trial, and find it again; writes wait while a disk is full.

Locations are local paths or URIs of an object store, as in Ray's `storage_path`.
"""

import errno
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pyarrow.fs import FileType, LocalFileSystem, copy_files
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_exponential

from cse_methods.contract import BEST_FOLDER
from cse_methods.errors import BackboneError
from cse_methods.files.places import filesystem
from cse_platform.errors import NotFoundError
from cse_platform.safe_paths import find_link
from cse_platform.secrets import mask_text, mask_url
from cse_platform.tracking.events import MODEL_DIGITS

_T = TypeVar("_T")

TRIAL_FILE = "cse_trial.txt"
"""The file in a kept model's folder that holds the key of its trial."""

NOT_ITS_MODEL = (
    "is not the model of trial {}, though it is recorded as such: a kept model names its trial in "
    f"{TRIAL_FILE}"
)
"""The end of a message that starts with a location, to be formatted with the trial's key."""

_STORAGE = re.compile(r".*(?=/(?:artifacts/models|sweeps/[^/]+/ray)/)", re.DOTALL)
"""The storage in the path of a model or a checkpoint."""

_log = logging.getLogger(__name__)
_LOADING = logging.getLogger("cse_methods.encoders.loading")


def exists(location: str) -> bool:
    files, path = filesystem(location)
    return bool(files.get_file_info(path).type != FileType.NotFound)


def keep_model(
    checkpoint: str, location: str, *, trial: str, waiting: Callable[[], None] = lambda: None
) -> str | None:
    """Copy the best encoder out of a trial's last checkpoint. Returns what prevented it, or None.

    The folder at `location`, in sentence-transformers format, also gets a file with the trial's
    key, which identifies the model wherever it is copied. While the disk is full, this waits.
    """
    return wait_for_room(
        lambda: _copy_model(checkpoint, location, trial), what="the model", waiting=waiting
    )


def _copy_model(checkpoint: str, location: str, trial: str) -> str | None:
    files, source = filesystem(checkpoint)
    target_files, folder = filesystem(location)
    best = f"{source}/{BEST_FOLDER}"
    try:
        if files.get_file_info(best).type != FileType.Directory:
            return (
                f"it has no folder {BEST_FOLDER!r}, where a method's `save` writes the encoder of "
                "the trained step with the best dev score that is a number"
            )
        target_files.create_dir(folder, recursive=True)
        filesystems = {"source_filesystem": files, "destination_filesystem": target_files}
        copy_files(best, folder, **filesystems)
        with target_files.open_output_stream(f"{folder}/{TRIAL_FILE}") as stream:
            stream.write(f"{trial}\n".encode())
    except OSError as error:
        if is_full(error):
            raise
        return mask_text(str(error))
    return None


def trial_in(folder: Path) -> str | None:
    """Read the key of the trial whose model is in a folder; None for other encoders."""
    file = folder / TRIAL_FILE
    return file.read_text("utf-8", "replace").strip() if file.is_file() else None


def holds_other_model(location: str, trial: str) -> bool:
    """Whether a path or URI holds something other than the model of this trial.

    The file in its folder decides. One that was cut off while it was written lacks that file, and
    its folder is named by the trial's key. Returns False if nothing is there. Raises
    BackboneError if the location is unreachable.
    """
    try:
        files, path = filesystem(location)
        record = f"{path}/{TRIAL_FILE}"
        folder, file = files.get_file_info([path, record])
        if folder.type == FileType.NotFound:
            return False
        if file.type != FileType.File:
            return Path(location).name != trial[:MODEL_DIGITS]
        with files.open_input_stream(record) as stream:
            recorded: str = stream.read().decode("utf-8", "replace").strip()
    except (OSError, ValueError) as error:
        raise BackboneError(
            f"the model in {mask_url(location)} cannot be read: {mask_text(str(error))}"
        ) from error
    return recorded != trial


def refuse_links(location: str) -> None:
    """Refuse a model or a checkpoint on this machine that has a link, or lies behind one.

    A runs folder may come from somebody else, so that what a link leads to is not read. Links that
    lead to the storage are followed, but none below it. Raises BackboneError.
    """
    files, path = filesystem(location)
    if not isinstance(files, LocalFileSystem):
        return
    try:
        storage = _STORAGE.match(path)
        link = find_link(path, below=storage and storage[0])
    except OSError as error:
        raise BackboneError(f"{mask_url(location)} cannot be read: {error.strerror}") from error
    if link is not None:
        raise BackboneError(
            f"{link} is a link or behind one, so it is not read: it may be a private file; put a "
            "copy in its place if it is yours"
        )


@contextmanager
def local_copy(location: str, trial: str) -> Iterator[Path]:
    """Yield a local folder with a trial's model; it does not exist if the model does not.

    Who loads it meanwhile is not warned of weights that no vector depends on: its trial put them
    there.

    Raises:
        NotFoundError: if the path or URI holds something other than the model of this trial.
        BackboneError: if it is unreachable, or behind a link.
    """
    refuse_links(location)
    if holds_other_model(location, trial):
        raise NotFoundError(
            f"{mask_url(location)} {NOT_ITS_MODEL.format(trial[:MODEL_DIGITS])}; "
            f"cse-leaderboard reproduce {trial[:8]} writes a folder that trains it again"
        )
    files, path = filesystem(location)
    with ExitStack() as leave:
        silence = logging.Filter("no logger")
        _LOADING.addFilter(silence)
        leave.callback(_LOADING.removeFilter, silence)
        if isinstance(files, LocalFileSystem):
            yield Path(path)
            return
        folder = leave.enter_context(TemporaryDirectory(prefix="cse-model-"))
        try:
            copy_files(path, folder, source_filesystem=files)
        except OSError as error:
            raise BackboneError(
                f"the model in {mask_url(location)} cannot be fetched: {mask_text(str(error))}"
            ) from error
        yield Path(folder)


def wait_for_room(
    write: Callable[[], _T], *, what: str, waiting: Callable[[], None] = lambda: None
) -> _T:
    """Call `write`; if the disk is full, warn once and call it again until there is room.

    `waiting` is called before each wait, which takes at most ten seconds.
    """

    def report_wait(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            _log.warning("no room on the disk for %s; it will be written when there is room", what)
        waiting()

    retrying = Retrying(
        retry=retry_if_exception(is_full),
        wait=wait_exponential(multiplier=0.2, max=10),
        before_sleep=report_wait,
        reraise=True,
    )
    return retrying(write)


def is_full(error: BaseException) -> bool:
    """Whether a write failed on a full disk, or in torch's writer, which does not say why."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, RuntimeError) and "inline_container.cc" in str(error)
