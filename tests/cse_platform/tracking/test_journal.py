import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import python
from stored_trials import write_journal

from cse_platform.errors import JournalError
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.events import (
    EVENT,
    DriverMessage,
    Event,
    SweepRequested,
    SweepStarted,
    TrialPoint,
)
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import Journal, read_journal, read_journal_id

RELEASED = Path(__file__).parents[2] / "fixtures" / "released_journals" / "0.1.0.jsonl"

WRITER = """
import sys
from pathlib import Path
from cse_platform.tracking.events import TrialPoint
from cse_platform.tracking.journal import Journal
journal = Journal(Path(sys.argv[1]))
step = 0
while True:
    journal.append(TrialPoint(sweep="s", trial="t", step=step, value=0.5, metrics={}))
    print(step, flush=True)
    step += 1
"""


def point(step: int, **changes: object) -> TrialPoint:
    fields = {"sweep": "s", "trial": "t", "step": step, "value": 0.5, "metrics": {}}
    return TrialPoint.model_validate(fields | changes)


def steps(journal: Journal, after: int = 0) -> list[int]:
    return [event.step for _, event in journal.read(after) if isinstance(event, TrialPoint)]


def written(path: Path, count: int) -> list[Event]:
    events: list[Event] = [point(step) for step in range(count)]
    write_journal(path, events)
    return events


def test_appended_events_are_read_from_any_offset(tmp_path) -> None:
    with Journal(tmp_path / "runs" / "journal.jsonl") as journal:
        ends = [journal.append(point(step))[0] for step in range(3)]
        assert [end for end, _ in journal.read()] == ends
        assert [steps(journal, after) for after in (0, *ends)] == [[0, 1, 2], [1, 2], [2], []]
        assert [journal.count_after(offset) for offset in (0, *ends)] == [3, 2, 1, 0]
        journal.append(point(3, value=float("nan"), metrics={"train/loss": float("inf")}))
        [(_, event)] = journal.read(ends[-1])
    assert isinstance(event, TrialPoint) and event.value != event.value
    assert event.metrics == {"train/loss": float("inf")}


def test_characters_that_files_and_databases_refuse_are_escaped(tmp_path) -> None:
    path = tmp_path / "journal"
    said = DriverMessage(sweep="s", level="note", text="file caf\udce9\0 \U0001f600")
    with Journal(path) as journal:
        written = journal.append(said)
        assert [written] == list(journal.read())
        assert written[1] == said.model_copy(update={"text": "file caf\\udce9\\x00 \U0001f600"})


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_cut_at_any_byte_is_a_prefix_and_goes_on(tmp_path_factory, data) -> None:
    path = tmp_path_factory.mktemp("cut") / "journal"
    events = written(path, 4)
    content = path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:cut])
    with Journal(path) as journal:
        kept = [event for _, event in journal.read()]
        assert kept == events[: max(0, content[:cut].count(b"\n") - 1)]
        journal.append(further := point(99))
        assert [event for _, event in journal.read()] == [*kept, further]


def test_a_reader_does_not_see_half_a_line(tmp_path) -> None:
    events = written(tmp_path / "journal", 2)
    with (tmp_path / "journal").open("ab") as file:
        file.write(b'{"kind": "trial_po')
    assert [event for _, event in read_journal(tmp_path / "journal")] == events


def test_damage_before_the_last_line_is_refused_and_kept(tmp_path) -> None:
    path = tmp_path / "journal"
    written(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0" * 10 + b"\n", *lines[3:]]))
    damaged = path.read_bytes()
    with pytest.raises(JournalError, match=rf"{path}, line 3 is not an event"):
        Journal(path)
    assert path.read_bytes() == damaged


def test_another_version_is_no_damage_and_refused_with_the_ways_out(tmp_path) -> None:
    path = tmp_path / "journal"
    written(path, 1)
    whole = path.read_text()
    for found, change in {"2": (":1}", ":2}"), "unknown": (',"version":1', "")}.items():
        path.write_text(other := whole.replace(*change, 1))
        said = rf"{path} .* {found}, .* needs 1: .*--set sweep="
        for read in (Journal, lambda other: next(read_journal(other)), read_journal_id):
            with pytest.raises(JournalError, match=said):
                read(path)
        assert path.read_text() == other
    newer = {"version": 3, "step": None, "steps": [0, 1]}
    for change in ({"kind": "trial_moved"}, {"mood": "good"}, newer):
        line = json.dumps(point(1).model_dump(mode="json") | change)
        path.write_text(f"{whole}{line}\n")
        with pytest.raises(JournalError, match=rf"{path}, line 3 is of another version"):
            Journal(path)


LATER = {"sweep_started": {"launch"}, "sweep_requested": {"at_most"}}
"""Fields that events have got since, by kind."""
RENAMED = {"similarities": "examples"}
"""Fields that have another name since."""


def test_a_journal_of_0_1_0_is_read_whole(board) -> None:
    events = [event for _, event in read_journal(RELEASED)]
    [(_, deleted)] = read_journal(RELEASED.with_name("0.1.0-deleted.jsonl"))
    assert {type(event) for event in (*events, deleted)} == set(get_args(get_args(Event)[0]))
    for line, event in zip(RELEASED.read_text().splitlines()[1:], events, strict=True):
        later = LATER.get(event.kind, set())
        fields = {RENAMED.get(name, name) for name in json.loads(line)}
        assert type(event).model_fields.keys() == fields | later
    history, runs = History(events), RELEASED.parents[2]
    assert SweepSpec.model_validate(history.spec).search.trials == 3
    first, failed, reused, pruned, _ = history.trials.values()
    assert (first.curve, first.model) == ({0: 0.5, 10: 0.625}, f"{runs}/artifacts/models/c0ffee00")
    assert (failed.cause, reused.reused_from) == ("trial", "other")
    assert pruned.why == "below the median"
    apply_journal(LeaderboardSink(board), RELEASED)
    leaderboard = Leaderboard(board)
    assert leaderboard.sweep("released").counts["COMPLETE"] == 2
    details = leaderboard.trial("c0ffee00")
    assert [score.value for score in details.scores if score.split == "test"] == [0.5]
    assert details.written.note.text == "good"


def test_several_objectives_of_an_earlier_version_are_ignored(tmp_path) -> None:
    header, start, *rest = RELEASED.read_text().splitlines(keepends=True)
    event = json.loads(start)
    aims = {"objectives": [{"name": "stsb"}, {"name": "seconds"}], "constraints": ["seconds <= 9"]}
    event["spec"]["search"] |= aims
    path = tmp_path / "journal"
    path.write_text("".join([header, json.dumps(event), "\n", *rest]))
    history, released = (
        History(event for _, event in read_journal(journal)) for journal in (path, RELEASED)
    )
    assert history.spec == released.spec and SweepSpec.model_validate(history.spec)
    assert history.trials.keys() == released.trials.keys()


def test_a_file_that_is_no_journal_is_refused(tmp_path) -> None:
    (tmp_path / "notes").write_text('"no header"\n')
    with pytest.raises(JournalError, match="line 1 is not a header"):
        Journal(tmp_path / "notes")
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"cannot open the journal .*file/journal"):
        Journal(tmp_path / "file" / "journal")


def test_a_second_process_is_told_which_process_has_the_journal_open(tmp_path) -> None:
    path = tmp_path / "journal"
    with Journal(path):
        again = python(WRITER, str(path), check=False)
    assert f"is in use by process {os.getpid()}" in again.stderr
    Journal(path).close()


def test_kill_loses_nothing_that_append_returned_from(tmp_path) -> None:
    path = tmp_path / "journal"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        returned = [int(writer.stdout.readline()) for _ in range(200)][-1]
        writer.send_signal(signal.SIGKILL)
    with Journal(path) as journal:
        kept = steps(journal)
    assert kept == list(range(len(kept)))
    assert len(kept) > returned


@contextmanager
def disk_full_soon(journal: Journal) -> Iterator[None]:
    """A limit on the size of files stands for the disk: a write is cut short, then refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.end + 10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_holds_append_until_there_is_room(tmp_path, monkeypatch, caplog) -> None:
    said = threading.Event()
    caplog.set_level(logging.WARNING)
    log = logging.getLogger("cse_platform.tracking.journal")
    monkeypatch.setattr(log, "filters", [lambda record: said.set() or True])
    with Journal(tmp_path / "journal") as journal:
        journal.append(point(0))
        appending = threading.Thread(target=journal.append, args=[point(1)])
        with disk_full_soon(journal):
            appending.start()
            assert said.wait(120)
            assert steps(journal) == [0]
        appending.join(120)
        journal.append(point(2))
        assert steps(journal) == [0, 1, 2]
    assert len(caplog.records) == 1
    assert "everything waits until it is writable" in caplog.text


class Telling(logging.Handler):
    """Writes what is logged into the journal, once another thread could not write there."""

    def __init__(self, journal: Journal, holds: threading.Event, failed: threading.Event) -> None:
        super().__init__()
        self.journal, self.holds, self.failed = journal, holds, failed

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "cse_platform.test":
            self.holds.set()
            self.failed.wait(120)
            self.journal.append(point(2))


def test_a_full_disk_is_told_while_another_thread_tells_of_it(tmp_path, monkeypatch) -> None:
    """One holds the lock of the logging's handler and writes, the other writes and logs."""
    holds, failed = threading.Event(), threading.Event()
    own = logging.getLogger("cse_platform.tracking.journal")
    monkeypatch.setattr(own, "filters", [lambda record: failed.set() or True])
    with Journal(tmp_path / "journal") as journal:
        handler = Telling(journal, holds, failed)
        monkeypatch.setattr(logging.getLogger("cse_platform"), "handlers", [handler])
        log = logging.getLogger("cse_platform.test")
        threads = [
            threading.Thread(target=log.warning, args=["full"], daemon=True),
            threading.Thread(target=journal.append, args=[point(1)], daemon=True),
        ]
        with disk_full_soon(journal):
            threads[0].start()
            assert holds.wait(120)
            threads[1].start()
            assert failed.wait(120)
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads)
        assert sorted(steps(journal)) == [1, 2]


def test_appended_events_are_synced_to_disk(tmp_path) -> None:
    grown = threading.Event()
    with Journal(tmp_path / "journal") as journal:
        journal.on_durable = grown.set
        end, _ = journal.append(point(0))
        assert grown.wait(120)
        assert journal.durable == end


def events_naming(runs: Path, name: str) -> list[Event]:
    """An event of each kind that names places: one in the runs folder, others elsewhere."""
    inside, time = f"{runs}/{name}", "2030-01-01T12:00:00Z"
    places = [inside, f"{runs.parent}/runs2/{name}", f"s3://lab/runs/{name}", name]
    of = {"time": time, "sweep": "s"}
    of_trial = {**of, "trial": "t", "step": 2, "value": 0.5, "metrics": {}}
    learned = {"source": "a#1", "value": 0.5, "score": 0.0, "alike": True}
    values = {"teachers": [*places, {"model": inside}], "temperature": 0.05, "inside": True}
    start = {**of, "method": "simcse", "backbone": "mini", "spec": {"file": name}}
    request = {**of, "kind": "sweep_requested", "request": "r", "action": "enqueue", "who": "ada"}
    ended = {**of, "kind": "trial_finished", "trial": "t", "state": "COMPLETE"}
    best = {"best_step": 2, "best_value": 0.5}
    reused = started(**of, kind="trial_reused", values=values, started=time, finished=time) | best
    lines: list[dict[str, Any]] = [
        {**start, "kind": "sweep_started", "best": dict(zip("abcd", places, strict=True)),
         "leaders": {"first": values}, "learned": [{**learned, "values": values}],
         "provenance": {}},
        {**request, "values": values},
        started(**of, values=values),
        *({**of_trial, "kind": "trial_point", "checkpoint": place} for place in (*places, None)),
        {"kind": "trial_checkpoint", **of, "trial": "t", "step": 2, "checkpoint": inside},
        *({**ended, **best, "model": place} for place in (*places, None)),
        {**reused, "reused_from": "a", "curve": {"2": 0.5}, "model": inside},
    ]  # fmt: skip
    return [EVENT.validate_json(json.dumps(line)) for line in lines]


@settings(max_examples=20, deadline=None)
@given(name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_moved_or_copied_folder_names_its_own_places(tmp_path_factory, name) -> None:
    runs = tmp_path_factory.mktemp("lab") / "runs"
    with Journal(runs / "sweeps" / "s" / "journal.jsonl") as journal:
        events = events_naming(runs, name)
        appended = [journal.append(event)[1] for event in events]
        assert appended == [event for _, event in journal.read()] == events
        assert f'"{runs}/' not in journal.path.read_text()
    moved = runs.rename(runs.with_name("moved"))
    there = [event for _, event in read_journal(moved / "sweeps" / "s" / "journal.jsonl")]
    assert there == events_naming(moved, name)


def test_hyperparameters_name_places_as_the_sweeps_file_does(tmp_path) -> None:
    """Or else those of a copy would not be among its choices."""
    start, request = events_naming(tmp_path, "mine")[:2]
    assert isinstance(start, SweepStarted) and isinstance(request, SweepRequested)
    path, best = tmp_path / "sweeps" / "s" / "journal.jsonl", f"{tmp_path}/best"
    for values in ({"teacher": f"{tmp_path}/mine"}, {"teacher": f"{tmp_path}/mine", "base": best}):
        with Journal(path) as journal:
            journal.append(start.model_copy(update={"best": {"best:a/b": best}, "learned": ()}))
            end = journal.end
            journal.append(request.model_copy(update={"values": values}))
        written = json.loads(path.read_bytes()[end:])["values"]
        assert written == values | ({"base": "{runs}/best"} if "base" in values else {})
        [(_, read)] = read_journal(path, offset=end)
        assert isinstance(read, SweepRequested) and read.values == values


BAD_NAMES = ("..", "", "../../x", "a/b", "a\0b", "\x1b[31m", "x" * 100_000)


def started(**changes: object) -> dict[str, Any]:
    trial = {"kind": "trial_started", "time": "2030-01-01T12:00:00Z", "sweep": "s", "trial": "t0"}
    place = {"number": 0, "role": "search", "search_number": 0, "seed": 42, "searched": []}
    code = {"method": "simcse", "revision": 1, "backbone": "mini", "configuration": "c0"}
    return trial | place | code | {"values": {}, "dev": {}} | changes


def test_names_that_no_file_has_are_refused_with_their_line(tmp_path) -> None:
    """They become names of folders, and the folders of others are not to be reached by them."""
    path = tmp_path / "journal"
    whole = written(path, 1) and path.read_text()
    note = {"kind": "annotation_written", "sweep": "s", "about": "trial", "name": "t", "who": "ada"}
    asked = {"kind": "sweep_requested", "sweep": "s", "request": "r", "action": "stop", "who": "a"}
    good: dict[str, dict[str, Any]] = {
        "sweep": started(),
        "trial": started(),
        "configuration": started(),
        "name": note,
        "tags": note,
        "request": asked,
    }
    for field, line in good.items():
        path.write_text(f"{whole}{json.dumps(line)}\n")
        assert len(list(read_journal(path))) == 2
        for name in BAD_NAMES:
            value = {"tags": {name: True}}.get(field, name)
            path.write_text(f"{whole}{json.dumps(line | {field: value})}\n{whole}")
            with pytest.raises(JournalError) as caught:
                list(read_journal(path))
            said = str(caught.value)
            assert said.startswith(f"{path}, line 3 is not an event (") and len(said) < 700, said
            assert "\0" not in said and "\x1b" not in said


def test_a_deeply_nested_line_is_a_bad_line_and_stays(tmp_path) -> None:
    path = tmp_path / "journal"
    whole = written(path, 1) and path.read_text()
    deep = "[" * 10_000 + "]" * 10_000
    for text in (deep, f'{{"kind": "a\\u0000", "x": {deep}}}', f'{{"version": {deep}}}'):
        path.write_text(f"{whole}{text}\n")
        for read in (Journal, lambda bad: list(read_journal(bad))):
            with pytest.raises(JournalError, match=rf"{path}, line 3 is not an event"):
                read(path)
        assert path.read_text().endswith(f"{text}\n")
    path.write_text(f"{deep}\n")
    with pytest.raises(JournalError, match="line 1 is not a header"):
        Journal(path)
