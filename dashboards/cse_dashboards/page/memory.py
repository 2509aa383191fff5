"""Cached results of slow questions."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
KEPT = 32
"""Number of results that a `Memory` keeps."""


class Memory(Generic[T]):
    """A cache of recent results by question; thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, T]] = OrderedDict()
        self._lock = threading.Lock()
        # A lock exists only while a caller computes or waits.
        self._computing: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()
        self._renewing: set[Hashable] = set()
        self._behind = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renew")

    def recall(self, question: Hashable, source: Any) -> T | None:
        """Return the cached result if it was computed from an equal `source`, else None."""
        with self._lock:
            kept = self._kept.get(question)
        return kept[1] if kept is not None and kept[0] == source else None

    def ask(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the result for this question and source, computing it unless it is cached.

        Concurrent callers with the same question wait for the one that computes it.
        """
        if (result := self.recall(question, source)) is not None:
            return result
        with self._lock:
            computing = self._computing.setdefault(question, threading.Lock())
        with computing:
            if (result := self.recall(question, source)) is not None:
                return result
            return self.keep(question, source, compute())

    def ask_stale(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the cached result at once, even if it is stale, and refresh it in the background.

        The background computes one result at a time; a later call returns the new result.
        """
        with self._lock:
            kept = self._kept.get(question)
        if kept is None or kept[0] == source:
            return self.ask(question, source, compute)
        with self._lock:
            busy = question in self._renewing
            self._renewing.add(question)
        if not busy:
            self._behind.submit(self._renew_result, question, source, compute)
        return kept[1]

    def keep(self, question: Hashable, source: Any, result: T) -> T:
        """Cache a result. Returns it."""
        with self._lock:
            self._kept[question] = (source, result)
            self._kept.move_to_end(question)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return result

    def _renew_result(self, question: Hashable, source: Any, compute: Callable[[], T]) -> None:
        try:
            self.ask(question, source, compute)
        except Exception:  # the next caller computes it again, and gets the error
            logging.getLogger(__name__).warning("renewing what is shown failed", exc_info=True)
            with self._lock:
                self._kept.pop(question, None)
        finally:
            with self._lock:
                self._renewing.discard(question)
