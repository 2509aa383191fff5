"""What the page remembers, and makes anew behind while it shows what it has."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cse_dashboards.page.site import Memory

PATIENCE = 60.0


def test_a_result_is_computed_once_for_its_source() -> None:
    memory = Memory[str]()

    assert memory.ask("question", 1, lambda: "one") == "one"
    assert memory.ask("question", 1, lambda: "never") == "one"
    assert memory.ask("question", 2, lambda: "two") == "two"
    assert memory.known("question", 1) is None


def test_who_asks_the_same_at_once_waits_for_one_answer() -> None:
    memory, begun, go_on = Memory[int](), threading.Event(), threading.Event()
    computed: list[int] = []

    def compute() -> int:
        computed.append(1)
        begun.set()
        assert go_on.wait(PATIENCE)
        return 7

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(memory.ask, "question", 1, compute)
        assert begun.wait(PATIENCE)
        second = threads.submit(memory.ask, "question", 1, compute)
        go_on.set()
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (7, 7)
    assert computed == [1]


def test_what_is_known_is_shown_until_the_new_one_is_there() -> None:
    memory, go_on, done = Memory[str](), threading.Event(), threading.Event()

    def renew() -> str:
        assert go_on.wait(PATIENCE)
        return "new"

    assert memory.ask_stale("question", 1, lambda: "old") == "old"
    assert memory.ask_stale("question", 2, renew) == "old"
    assert memory.ask_stale("question", 2, lambda: "another") == "old"  # one is being made
    go_on.set()
    memory.ask_stale("next", 1, lambda: "")
    memory.ask_stale("next", 2, lambda: str(done.set()))  # in the line behind it
    assert done.wait(PATIENCE)
    assert memory.ask_stale("question", 2, lambda: "another") == "new"


def test_what_fails_behind_is_computed_by_who_asks_next() -> None:
    memory, done = Memory[str](), threading.Event()
    memory.ask_stale("question", 1, lambda: "old")
    memory.ask_stale("question", 2, lambda: str(1 // 0))
    memory.ask_stale("next", 1, lambda: "")
    memory.ask_stale("next", 2, lambda: str(done.set()))
    assert done.wait(PATIENCE)
    assert memory.ask_stale("question", 2, lambda: "new") == "new"


def test_a_question_that_fails_leaves_nothing_behind() -> None:
    memory = Memory[int]()
    for question in range(3):
        with pytest.raises(ZeroDivisionError):
            memory.ask(question, "source", lambda: 1 // 0)
    gc.collect()
    assert len(memory._computing) == 0
    assert memory.ask(0, "source", lambda: 7) == 7
