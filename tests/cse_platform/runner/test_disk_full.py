import errno
from pathlib import Path

import pytest
import torch
from pyarrow.fs import LocalFileSystem

from cse_platform.kept_models import is_full, wait_for_room

FULL = Path("/dev/full")


def write_by_arrow() -> None:
    with LocalFileSystem().open_append_stream(str(FULL)) as stream:
        stream.write(b"x" * 2**20)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_recognised() -> None:
    for write in (
        lambda: FULL.write_text("x"),
        lambda: torch.save(torch.zeros(1000), FULL),
        write_by_arrow,
    ):
        with pytest.raises((OSError, RuntimeError)) as caught:
            write()
        assert is_full(caught.value)


def test_other_errors_are_not_waited_for() -> None:
    assert not is_full(PermissionError(errno.EACCES, "no"))
    assert not is_full(RuntimeError("a bug"))
    with pytest.raises(IsADirectoryError):
        wait_for_room(lambda: Path("/").write_text("x"), what="a file")
