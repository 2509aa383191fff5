"""Settings of Python's garbage collector that keep it from scanning objects of libraries.

After importing torch, transformers and Ray, a process has about 600,000 objects, none of them
garbage. By default the collector scans them repeatedly during the imports and once more at the end
of the process, which takes a quarter of the time of a short command.
"""

import atexit
import gc
from functools import cache

NEW_OBJECTS = 10_000
"""The number of new objects that triggers a collection; Python 3.11's default is 700."""


@cache
def collect_rarely() -> None:
    """Collect garbage less often from now on, and not at all at the end of the process."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)


@cache
def spare_survivors() -> None:
    """Exempt all objects that are alive now from later collections; done once per process.

    After the first trial of a process, these are the libraries and what they cache.
    """
    gc.freeze()
