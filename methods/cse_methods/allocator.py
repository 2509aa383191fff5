"""Let the C library's allocator keep the memory that a step frees for the next step.

By default glibc hands the memory of every large tensor back to the system at once. The next step
asks for it again, and the system fills it with zeros page by page: a third of a small model's step.
"""

import ctypes
import os
import platform
import threading

ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""The environment of a process that trains in another thread than its main one. Otherwise glibc
gives each new thread one of many arenas, and each of them would keep what it freed."""

_OPTIONS = {
    -3: 1 << 30,  # M_MMAP_THRESHOLD, in bytes
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD
    -2: 64 << 20,  # M_TOP_PAD
}


def keep_freed_memory() -> None:
    """Let the process keep the memory that it frees, if glibc has a single arena for it."""
    main = threading.current_thread() is threading.main_thread()
    glibc = platform.libc_ver()[0] == "glibc"
    if glibc and (main or ONE_ARENA.items() <= os.environ.items()):
        library = ctypes.CDLL(None)
        for option, value in _OPTIONS.items():
            library.mallopt(option, value)


def return_freed_memory() -> None:
    """Give the system back what is kept now, as between two trials of one process."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
