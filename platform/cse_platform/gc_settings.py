"""Python's garbage collector, kept from searching what the libraries hold, which is never garbage.

After the imports of torch, transformers and Ray a process has some 600,000 objects. By default the
collector searches them again and again while they come, and once more at the end of the process:
together a quarter of the time of a short command.
"""

import atexit
import gc
from functools import cache

NEW_OBJECTS = 10_000
"""How many new objects there are before Python looks for garbage: 700 by default in 3.11."""


@cache
def collect_rarely() -> None:
    """Collect garbage less often from here on, and not at all at the end of the process."""
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)


@cache
def spare_survivors() -> None:
    """Exempt what is alive now from every later search for garbage, once a process.

    After the first trial of a process that is the libraries and what they cache.
    """
    gc.freeze()
