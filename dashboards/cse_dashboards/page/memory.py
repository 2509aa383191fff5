"""What took long to compute, kept for as long as what it was computed from stays the same."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

KEPT = 32

T = TypeVar("T")


class Memory(Generic[T]):
    """The last results by question; safe to use from all threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, T]] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, question: Hashable, source: Any) -> T | None:
        """The result, if it was computed from something equal to `source`."""
        with self._lock:
            found = self._kept.get(question)
        return found[1] if found is not None and found[0] == source else None

    def ask(self, question: Hashable, source: Any, compute: Callable[[], T]) -> T:
        """The result, computed where it is not known for this question and what it follows from."""
        if (found := self.known(question, source)) is not None:
            return found
        return self.keep(question, source, compute())

    def keep(self, question: Hashable, source: Any, result: T) -> T:
        """Remember a result, which is given back."""
        with self._lock:
            self._kept[question] = (source, result)
            self._kept.move_to_end(question)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return result
