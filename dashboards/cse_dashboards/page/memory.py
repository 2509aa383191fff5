"""Results that took long to compute, by question and by the source that they follow from."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
KEPT = 32
"""Results that a `Memory` keeps."""


class Memory(Generic[T]):
    """The last results by question; safe to use from all threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, T]] = OrderedDict()
        self._lock = threading.Lock()
        # A lock lives while a caller computes or waits, however that ends.
        self._computing: WeakValueDictionary[Hashable, threading.Lock] = WeakValueDictionary()
        self._renewing: set[Hashable] = set()
        self._behind = ThreadPoolExecutor(max_workers=1, thread_name_prefix="renew")

    def known(self, question: Hashable, source: Any) -> T | None:
        """Return the result, if it was computed from something equal to `source`."""
        kept = self._find_result(question)
        return kept[1] if kept is not None and kept[0] == source else None

    def ask(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the result, computing it unless it is known for this question and source.

        Callers with the same question at the same time wait for the one that computes.
        """
        if (result := self.known(question, source)) is not None:
            return result
        with self._lock:
            computing = self._computing.setdefault(question, threading.Lock())
        with computing:
            if (result := self.known(question, source)) is not None:
                return result
            return self.keep(question, source, compute())

    def lately(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """Return the known result at once, even if it is stale, and refresh it in the background.

        The background computes one result at a time; a later call returns it.
        """
        kept = self._find_result(question)
        if kept is None or kept[0] == source:
            return self.ask(question, source, compute)
        with self._lock:
            busy = question in self._renewing
            self._renewing.add(question)
        if not busy:
            self._behind.submit(self._renew_result, question, source, compute)
        return kept[1]

    def keep(self, question: Hashable, source: Any, result: T) -> T:
        """Remember a result. Returns it."""
        with self._lock:
            self._kept[question] = (source, result)
            self._kept.move_to_end(question)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return result

    def _find_result(self, question: Hashable) -> tuple[Any, T] | None:
        with self._lock:
            return self._kept.get(question)

    def _renew_result(self, question: Hashable, source: Any, compute: Callable[[], T]) -> None:
        try:
            self.ask(question, source, compute)
        except Exception:  # the next caller computes it, and gets the error
            logging.getLogger(__name__).warning("renewing what is shown failed", exc_info=True)
            with self._lock:
                self._kept.pop(question, None)
        finally:
            with self._lock:
                self._renewing.discard(question)
