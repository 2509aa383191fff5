import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import cheap  # noqa: F401 -- registers the method of the sweep
import pytest
from click.testing import Result
from commands import invoke
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.cli.sweep import main
from cse_platform.stores.sql.lease import Lease, waiting_requests
from cse_platform.stores.sql.store import Store
from cse_platform.tracking.events import SweepFinished, SweepRequested
from cse_platform.tracking.journal import Journal, read_journal_id
from cse_platform.tracking.output import OutputFile, output_file

SPEC = {
    "sweep": "first", "method": "cheap", "backbone": "mini", "corpus": "builtin",
    "space": {
        "temperature": {"low": 0.01, "high": 1.0, "log": True},
        "kind": ["a", "b"],
        "depth": {"choices": [None, 1, 2], "when": {"kind": "b"}},
    },
    "search": {"sampler": "random", "trials": 6},
}  # fmt: skip


@pytest.fixture
def asks(board, leaderboard_url, tmp_path) -> Callable[..., Result]:
    """Types a command about a sweep of four trials: complete, failed, running and pruned."""
    start = sweep_started(spec=SPEC, provenance={"command": "cse-sweep x.yaml", "folder": "/lab"})
    events = [
        start,
        *trial_life(0, {10: 0.75}),
        *trial_life(1, {10: 0.5}, state="FAIL"),
        *trial_life(2, {10: 0.5}, state=None),
        *trial_life(3, {10: 0.5}, state="PRUNED"),
    ]
    with Journal(tmp_path / "journal.jsonl") as journal:
        apply_events(board, events, journal=journal.id)

    def ask(command: str, *arguments: str, about: str = "first", code: int = 0) -> Result:
        return invoke(main, command, about, "--store", leaderboard_url, *arguments, code=code)

    return ask


@pytest.fixture
def held(board, asks, tmp_path) -> Iterator[Lease]:
    with Journal(tmp_path / "journal.jsonl") as journal, Lease(board, "first", journal) as lease:
        yield lease


def waiting(board: Store) -> list[SweepRequested]:
    with board.session() as session:
        return waiting_requests(session, "first")


ASKED: dict[str, dict[str, Any]] = {
    "stop": {},
    "stop --trial 2": {"numbers": (2,)},
    "retry": {},
    "retry 1": {"numbers": (1,)},
    "retry 3": {"numbers": (3,)},
    "enqueue --set temperature=3e-2": {"values": {"temperature": 0.03}},
    "enqueue --set kind=b --set depth=2": {"values": {"kind": "b", "depth": 2}},
    "limit 8": {"at_most": 8},
    "limit none": {"at_most": None},
}


def test_driver_is_asked(asks, held, board) -> None:
    for words, what in ASKED.items():
        action, *rest = words.split()
        result = asks(action, *rest)
        assert "sent to process" in result.output, result.output
        request = waiting(board)[-1]
        asked = {"numbers": (), "values": {}, "at_most": None} | what
        assert request.action == action
        assert {name: getattr(request, name) for name in asked} == asked, words
    assert len(waiting(board)) == len(ASKED)


def test_a_retry_that_waits_already_is_refused(asks, board) -> None:
    for words in ("retry 3", "retry"):
        asks(*words.split())
    for words, why in {
        "retry 3": "a retry of trial 3 of sweep 'first' waits already",
        "retry 1 3": "a retry of trial 3 of sweep 'first' waits already",
        "retry": "a retry of the failed trials of sweep 'first' waits already",
    }.items():
        assert why in asks(*words.split(), code=1).stderr, words
    asks("retry", "1")
    assert [request.numbers for request in waiting(board)] == [(3,), (), (1,)]


def test_a_trial_is_named_as_in_every_command(asks, held, board) -> None:
    asks("stop", about="first#2")
    assert waiting(board)[-1].numbers == (2,)
    told = asks("logs", about="first#2")
    assert "first#2 has no output yet" in told.stderr
    refused = asks("enqueue", "--set", "kind=a", about="first#2", code=1)
    assert "'first#2' is a trial; enqueue takes a sweep: first" in refused.stderr
    refused = asks("retry", about="first#2", code=1)
    assert "is RUNNING; retry takes a trial that is FAIL or PRUNED" in refused.stderr
    refused = asks("retry", about="first#9", code=1)
    assert "sweep 'first' has no trial 9; its last one is first#3" in refused.stderr


def test_a_cut_off_trial_of_an_interrupted_sweep_needs_no_retry(asks) -> None:
    refused = asks("retry", "2", code=1)
    assert refused.stderr == (
        "Error: trial 2 of sweep 'first' is unfinished, to go on at the next start; retry takes a "
        "trial that is FAIL or PRUNED\n"
    )


def test_without_failed_trials_a_retry_says_how_to_name_pruned_ones(board, leaderboard_url) -> None:
    lives = [event for n in range(3) for event in trial_life(n, {10: 0.5}, state="PRUNED")]
    apply_events(board, [sweep_started(spec=SPEC), *lives])
    result = invoke(main, "retry", "first", "--store", leaderboard_url, code=1)
    assert result.stderr == (
        "Error: no trial of sweep 'first' has failed; cse-sweep retry first NUMBER tries a pruned "
        "one again\n"
    )


def test_what_means_nothing_is_refused(asks, held, board) -> None:
    for words, why in {
        "stop --trial 9": "no trial 9",
        "stop --trial 0": "is COMPLETE",
        "retry 2": "is RUNNING",
        "enqueue --set temperature=2": "temperature: 2 is not in space.temperature",
        "enqueue --set temprature=0.1": "did you mean 'temperature'?",
        "enqueue --set epochs=1": "no such dimension in space; known: temperature, ",
        "enqueue --set kind=a --set depth=2": "depth",
        "enqueue --set kind": "a.b=VALUE",
    }.items():
        result = asks(*words.split(), code=1)
        assert why in result.stderr, words
    assert waiting(board) == []


def test_a_configuration_that_the_sweep_has_or_awaits_is_not_enqueued(
    board, leaderboard_url
) -> None:
    named = ("temperature", "kind", "depth")
    lives: list[tuple[dict[str, Any], Any]] = [
        ({"kind": "a", "depth": 1}, "COMPLETE"),  # depth is inactive
        ({"kind": "b", "depth": 1}, "FAIL"),
        ({"kind": "b"}, "COMPLETE"),  # its depth is null
        ({"temperature": 0.75, "kind": "a"}, None),
    ]
    events = [
        event
        for number, (values, state) in enumerate(lives)
        for event in trial_life(
            number, {10: 0.5}, state=state, values={"temperature": 0.25, **values}, searched=named
        )
    ]
    apply_events(board, [sweep_started(spec=SPEC), *events])
    has = "trial {} of sweep 'first' has this configuration, and is {}; "
    for settings, why in (
        ("temperature=0.25 kind=a", has.format(0, "COMPLETE") + "seeds.confirm in its file"),
        ("temperature=0.25 kind=b depth=1", has.format(1, "FAIL") + "cse-sweep retry first 1 "),
        ("temperature=0.25 kind=b depth=null", has.format(2, "COMPLETE") + "seeds.confirm in its"),
        ("temperature=0.75 kind=a", has.format(3, "unfinished, to go on at the next start")),
        ("temperature=0.25 kind=b depth=2", ""),
        ("temperature=0.25 kind=b depth=2", "waits already; sweep 'first' tries it next"),
        ("temperature=0.25 kind=b", ""),  # the sampler draws depth
        ("temperature=0.25 kind=b", ""),
        ("temperature=0.5 kind=b depth=null", ""),
    ):
        words = [word for setting in settings.split() for word in ("--set", setting)]
        asked = ("enqueue", "first", "--store", leaderboard_url, *words)
        assert why in invoke(main, *asked, code=1 if why else 0).stderr, settings
    assert len(waiting(board)) == 4


def test_sweep_that_does_not_run_does_it_at_its_next_start(asks, board) -> None:
    asks("stop", code=1)
    refused = asks("limit", "8", code=1)
    assert "its next start goes by its file: set resources.at_most there" in refused.stderr
    for number in ("0", "2147483648", "9" * 5000):
        refused = asks("limit", number, code=2)
        assert "a number from 1 to 2147483647, or none, got" in refused.stderr
    result = asks("retry")
    assert waiting(board)[0].action == "retry"
    assert "cd /lab && cse-sweep x.yaml" in result.output


def test_a_sweep_without_a_driver_is_not_stopped(asks, board, tmp_path) -> None:
    """Its state is the one that `status` prints."""

    def refused() -> str:
        [said] = asks("stop", code=1).stderr.splitlines()
        assert said.rpartition("its state is ")[2] in asks("status").output
        return said

    told = "Error: no driver runs sweep 'first' on this leaderboard; its state is"
    assert refused() == f"{told} RUNNING"  # it may run elsewhere
    with Journal(tmp_path / "journal.jsonl") as journal:
        Lease(board, "first", journal).close()
        assert refused() == f"{told} INTERRUPTED"
        apply_events(board, [SweepFinished(sweep="first", state="COMPLETE")], journal=journal.id)
    assert refused() == f"{told} COMPLETE"


def test_status_says_who_holds_a_sweep_and_what_is_asked(asks, held, board, tmp_path) -> None:
    asks("retry")
    said = asks("status").output
    assert "requests not yet received: retry" in said
    assert "run by process" in said
    assert "c2-42"[:8] in said
    # The driver was killed, and the trial's end was never recorded.
    journal = read_journal_id(tmp_path / "journal.jsonl")
    apply_events(board, [SweepFinished(sweep="first", state="INTERRUPTED")], journal=journal)
    said = asks("status").output
    assert "INTERRUPTED" in said
    unfinished = said.partition("unfinished, to go on at the next start:\n")[2]
    assert re.search(r"^2 +c2-42 .* 10 +50\.00 +50\.00 +42$", unfinished, re.MULTILINE)
    counts = "4 trials (1 complete, 1 fail, 1 pruned, 1 unfinished)"
    assert f"first: interrupted, {counts}\n" in asks("logs").output
    followed = asks("logs", "--trial", "2", "--follow")
    assert "has no output" in followed.output


def test_status_says_what_its_driver_has_received_and_not_done_yet(
    asks, held, board, leaderboard_url, tmp_path
) -> None:
    journal = read_journal_id(tmp_path / "journal.jsonl")

    def receive(*words: str) -> str:
        asks(*words)
        assert f"requests not yet received: {' '.join(words)}\n" in asks("status").output
        apply_events(board, waiting(board), journal=journal)
        return asks("status").output

    assert "requests being carried out: retry\n" in receive("retry")
    assert "requests being carried out: retry, retry 3\n" in receive("retry", "3")
    again = [*trial_life(1, {10: 0.5}, state="FAIL"), *trial_life(3, {20: 0.5})]
    apply_events(board, again, journal=journal)
    assert "being carried out" not in receive("limit", "8")
    assert "being carried out" not in receive("enqueue", "--set", "kind=b", "--set", "depth=2")
    assert "RUNNING, stopping" in receive("stop")
    assert "RUNNING, stopping" in invoke(main, "status", "--store", leaderboard_url).output
    apply_events(board, [SweepFinished(sweep="first", state="INTERRUPTED")], journal=journal)
    assert "stopping" not in asks("status").output


def test_status_says_how_many_trials_may_run_at_once(asks, held, board, tmp_path) -> None:
    """By the file, or by what a person has asked since its start and the driver has received."""
    assert "at once" not in asks("status").output
    asks("limit", "8")
    assert "at once" not in asks("status").output
    [request] = waiting(board)
    journal = read_journal_id(tmp_path / "journal.jsonl")
    apply_events(board, [request], journal=journal)
    assert "runs at most 8 trials at once" in asks("status").output
    again = sweep_started(spec=SPEC | {"resources": {"at_most": 1}})
    apply_events(board, [again], journal=journal)
    said = asks("status").output
    assert "runs at most 1 trial at once\n\ncut off, waiting to go on:\n" in said
    resumed = next(event for event in trial_life(2, {10: 0.5}, state=None))
    apply_events(board, [resumed.model_copy(update={"resumed_from": 10})], journal=journal)
    said = asks("status").output
    assert "cut off" not in said and re.search(r"^2 +c2-42 .* 10 +50", said, re.MULTILINE)
    apply_events(board, [SweepFinished(sweep="first", state="INTERRUPTED")], journal=journal)
    assert "at once" not in asks("status").output


def test_the_output_of_a_failed_trial_is_offered_where_there_is_one(
    asks, held, board, leaderboard_url, tmp_path
) -> None:
    journal = read_journal_id(tmp_path / "journal.jsonl")
    apply_events(board, [SweepFinished(sweep="first", state="COMPLETE")], journal=journal)

    def offers() -> list[bool]:
        shown = invoke(cse_leaderboard, "show", "first#1", "--store", leaderboard_url)
        return ["logs first --trial 1" in text for text in (asks("status").output, shown.output)]

    assert offers() == [False, False]
    OutputFile(output_file(tmp_path, 1)).append("epoch 1\n")
    assert offers() == [True, True]


def test_the_help_lists_every_command() -> None:
    for group in (main, cse_leaderboard):
        assert sorted(chain(*group.sections.values())) == sorted(group.commands)
