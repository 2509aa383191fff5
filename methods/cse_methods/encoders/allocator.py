"""The C library's allocator: memory that a step frees is kept for the next step.

By default glibc hands the memory of every large tensor back to the system at once. The next step
asks for it again, and the system fills it with zeros page by page: a third of a small model's step.
"""

import ctypes
import platform
from functools import cache

_OPTIONS = {
    -8: 1,  # M_ARENA_MAX: other arenas than the main one cannot grow large
    -3: 1 << 30,  # M_MMAP_THRESHOLD, in bytes
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD
    -2: 64 << 20,  # M_TOP_PAD
}


@cache
def keep_freed_memory() -> None:
    """From here on, the process keeps what it frees; elsewhere than on glibc nothing changes."""
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        for option, value in _OPTIONS.items():
            library.mallopt(option, value)


def return_freed_memory() -> None:
    """Give the system back what is kept now, as between two trials of one process."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
