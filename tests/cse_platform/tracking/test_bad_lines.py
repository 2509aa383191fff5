"""Journals of strangers: each line that no sweep writes is refused by name, and by all readers."""

import gzip
import json
import os
import tracemalloc
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from commands import invoke
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from stored_trials import apply_events, write_journal
from sweep_events import NOON, sweep_started, trial_evaluated, trial_life, trial_reused

from cse_platform.cli.leaderboard import main
from cse_platform.errors import JournalError
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import ExampleValuesRecord, ScoreRecord, TrialRecord
from cse_platform.sweep.blocks import Slug
from cse_platform.tracking import events, journal, output, packing
from cse_platform.tracking.events import Event, PackedExamples, Recorded
from cse_platform.tracking.journal import Journal, is_deleted, read_journal, read_journal_id
from cse_platform.tracking.output import read_output
from cse_platform.tracking.packing import pack

RECORDED = Path(__file__).parents[2] / "documents" / "recorded"
LIFE = trial_life(0, {0: 0.1, 10: 0.5})
LINES = {
    "sweep": sweep_started(),
    "start": LIFE[0],
    "point": LIFE[1],
    "end": LIFE[-1],
    "reuse": trial_reused(LIFE, "other"),
    "evaluation": trial_evaluated("t", {"test/sts12_spearman": 0.5}),
}

OUT_OF_RANGE = [
    ("start", "number", 10**30),
    ("start", "number", -5),
    ("start", "number", True),
    ("start", "number", "7"),
    ("start", "search_number", 2**31),
    ("start", "seed", 2**70),
    ("start", "seed", -1),
    ("start", "revision", 2**40),
    ("start", "resumed_from", 2**64),
    ("start", "time", "0001-01-01T00:00:00+14:00"),
    ("start", "time", "9999-12-31T23:59:59-14:00"),
    ("start", "time", "2030-01-01T12:00:00"),
    ("start", "time", 1_700_000_000),
    ("point", "step", 2**64),
    ("point", "step", 1.0),
    ("point", "value", "1e9"),
    ("point", "value", 5000.0),
    ("point", "value", float("inf")),
    ("point", "metrics", {"train/loss": "1e9"}),
    ("end", "best_value", 5000.0),
    ("end", "best_step", -1),
    ("end", "wall_seconds", float("nan")),
    ("end", "wall_seconds", 1e300),
    ("end", "gpus", float("inf")),
    ("reuse", "curve", {"1": 2.0}),
    ("reuse", "curve", {str(2**40): 0.5}),
    ("reuse", "best_value", -1.5),
    ("reuse", "started", "0001-01-01T00:00:00Z"),
    ("sweep", "provenance", {"host": 7}),
    ("sweep", "spec", {"storage": 7}),
    ("sweep", "spec", {"experiment": ["cse"]}),
    ("sweep", "spec", {"tags": 7}),
    ("sweep", "spec", {"tags": [{"a": 1}, 7]}),
    ("sweep", "spec", {"search": {"trials": 10**40}}),
    ("sweep", "spec", {"space": [1]}),
    ("sweep", "spec", {"dev": 3}),
    ("sweep", "spec", {"resources": "x"}),
    ("sweep", "spec", {"search": 7}),
    ("end", "error", "a\0b"),
    ("sweep", "provenance", {"method_source": "a\0b"}),
]


def dump(event: Event, **changes: Any) -> str:
    return json.dumps(event.model_dump(mode="json") | changes, separators=(",", ":"))


def read_line(path: Path, line: str) -> None:
    """Read a journal whose third line this is."""
    if not path.exists():
        write_journal(path, [LIFE[1]])
    whole = b"".join(path.read_bytes().splitlines(keepends=True)[:2])
    path.write_bytes(whole + line.encode() + b"\n")
    assert len(list(read_journal(path))) == 2


def test_values_that_no_store_can_hold_are_refused_with_line_field_and_value(tmp_path) -> None:
    path = tmp_path / "journal"
    for event in LINES.values():
        read_line(path, dump(event))
    wrong = []
    for kind, name, value in OUT_OF_RANGE:
        try:
            read_line(path, dump(LINES[kind], **{name: value}))
            wrong.append((kind, name, value))
        except JournalError as error:
            said = str(error)
            is_named = name in said or name in ("metrics", "curve", "provenance", "error")
            if not (said.startswith(f"{path}, line 3 is not an event (") and is_named):
                wrong.append((kind, name, value, said))
    assert not wrong


def test_a_name_that_is_there_twice_is_refused_however_it_is_written(tmp_path) -> None:
    path, point = tmp_path / "journal", dump(LIFE[1])
    doubled = {
        "event": point.replace('"step":0', '"step":0,"step":7'),
        "spaced": point.replace('"step":0', '"step" :0,"step":7'),
        "spaced by tabs": point.replace('"step":0', '"step"\t:0,"step"\t:7'),
        "escaped": point.replace('"step":0', '"step":0,"st\\u0065p":7'),
        "metrics": point.replace('{"dev', '{"dev/stsb_spearman":0.9,"dev'),
        "any": point.replace('"pruner_notes":{}', '"pruner_notes":{"a":[{"b":1,"b":2}]}'),
        "score": dump(LINES["evaluation"]).replace('"value":0.5', '"value":0.9,"value":0.5'),
    }
    wrong = []
    for name, line in doubled.items():
        try:
            read_line(path, line)
            wrong.append(name)
        except JournalError as error:
            wrong += [] if "is there twice" in str(error) else [(name, str(error))]
    assert not wrong
    for harmless in ({"error": 'a" : b":'}, {"error": "C:\\u0000"}, {"why": '"x":'}):
        read_line(path, dump(LIFE[-1], **harmless))


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "link to a device"])
def test_a_pipe_or_folder_is_refused_as_a_journal(tmp_path, kind) -> None:
    path = tmp_path / "sweeps" / "s" / "journal.jsonl"
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "/dev/full")
    readers: tuple[Callable[[Path], object], ...]
    readers = (Journal, read_journal_id, is_deleted, lambda path: list(read_journal(path)))
    for read in readers:
        with pytest.raises(JournalError, match=rf"{path} is no regular file"):
            read(path)


def test_a_line_without_end_is_refused_unread(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(journal, "LONGEST_LINE", 1 << 16)
    path = write_journal(tmp_path / "journal", [LIFE[1]])
    with path.open("ab") as file:
        file.write(b'{"error":"' + b"x" * (20 << 20))
    before = path.stat().st_size
    tracemalloc.start()
    for read in (Journal, lambda path: list(read_journal(path))):
        with pytest.raises(JournalError, match=rf"{path}, line 3 .*longer than 65536 bytes"):
            read(path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert path.stat().st_size == before
    with Journal(tmp_path / "own") as own, pytest.raises(JournalError, match="longer than a line"):
        own.append(LIFE[-1].model_copy(update={"error": "x" * (1 << 17)}))


def test_the_id_of_a_journal_is_a_name(tmp_path) -> None:
    path = write_journal(tmp_path / "journal", [LIFE[1]])
    whole = path.read_text().splitlines(keepends=True)[1:]
    for header in ('{"journal":"../x","version":1}', '{"journal":7,"version":1}',
                   '{"journal":"a","journal":"b","version":1}'):  # fmt: skip
        path.write_text("".join([f"{header}\n", *whole]))
        with pytest.raises(JournalError, match="line 1 is not a header"):
            read_journal_id(path)


def test_a_bad_journal_is_named_and_the_others_are_rebuilt(tmp_path, leaderboard_url) -> None:
    runs = tmp_path / "runs"
    write_journal(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *LIFE])
    bad = runs / "sweeps" / "bad" / "journal.jsonl"
    life = trial_life(1, {0: 0.2}, sweep="bad", trial="b0", configuration="b")
    write_journal(bad, [sweep_started("bad"), *life])
    whole = bad.read_text()
    last = dump(trial_life(2, {}, sweep="bad")[0], number=10**30)
    bad.write_text(f"{whole}{last}\n{whole}")
    pipe = runs / "sweeps" / "pipe" / "journal.jsonl"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    (runs / "evaluations").mkdir()
    (runs / "evaluations" / "c0-42.jsonl").write_text("no journal\n")
    (runs / "annotations").mkdir()
    (runs / "annotations" / "journal.jsonl").mkdir()
    place = ("--runs", runs, "--store", leaderboard_url)
    said = invoke(main, "rebuild", *place, code=1).output
    assert "4 journals" not in said and "2 journals; sweeps: 2" in said, said
    assert "MLflow is up to date" in said and "search store is up to date" in said
    for expected in (f"{bad}, line 6 is not an event (number", f"{pipe} is no regular file",
                     "c0-42.jsonl, line 1 is not a header"):  # fmt: skip
        assert said.count(expected) == 1, (expected, said)
    with open_store(leaderboard_url) as board, board.session() as session:
        assert {key for (key,) in session.query(TrialRecord.key)} == {"c0-42", "b0"}
    # What a journal had, and has no longer before its damage, is not lost in silence.
    bad.write_text("".join([*whole.splitlines(keepends=True)[:2], f"{last}\n"]))
    said = invoke(main, "rebuild", *place, "--only", "leaderboard", code=1).output
    assert "nothing was replaced" in said and "sweep bad: journal " in said
    assert f"{bad}, line 3 is not an event" in said
    said = invoke(main, "rebuild", *place, "--without", "bad", code=1).output
    assert "sweeps: 2 (2 before), trials: 1 (2 before)" in said


def test_a_journal_that_starts_the_sweep_of_another_is_named_and_gives_no_score(tmp_path) -> None:
    runs, url = tmp_path / "runs", f"sqlite:///{tmp_path}/board.db"
    write_journal(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *LIFE])
    score = trial_evaluated("c0-42", {"test/sts12_spearman": 0.5})
    claim = [sweep_started("bad"), sweep_started(), score]
    write_journal(bad := runs / "sweeps" / "bad" / "journal.jsonl", claim)
    place = ("--only", "leaderboard", "--runs", runs, "--store", url)
    said = invoke(main, "rebuild", *place, code=1).output
    assert f"{bad}: " in said and "another sweep named 'first'" in said
    with open_store(url) as board, board.session() as session:
        assert session.query(TrialRecord).count() == 1
        assert [score.task for score in session.query(ScoreRecord)] == ["stsb"]


def test_recorded_journals_are_read_whole(tmp_path) -> None:
    records = sorted(RECORDED.glob("*.jsonl.gz"))
    assert len(records) == 4
    for record in records:
        path = tmp_path / record.stem
        path.write_bytes(gzip.decompress(record.read_bytes()))
        assert len(list(read_journal(path))) == path.read_bytes().count(b"\n") - 1 > 0


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.integers(0, 2**31 - 1)
TIMES = st.datetimes(
    datetime(1970, 1, 2),  # noqa: DTZ001 -- the strategy adds the time zone
    datetime(2999, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-14))]),
)
KNOWN: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (events.Count, COUNTS),
    (events.Limit, st.integers(1, 2**31 - 1)),
    (events.Fraction, st.floats(-1, 1) | st.just(float("nan"))),
    (events.Amount, st.floats(-1e12, 1e12)),
    (events.Time, TIMES),
    (Slug, st.sampled_from(["a", "0" * 100, "A.b-c_1"])),
    (events.Values, st.dictionaries(TEXT, JSON, max_size=3)),
    (int, st.integers(0, 2**63 - 1)),
    (float, st.floats()),
    (str, TEXT),
    (bool, st.booleans()),
    (Any, JSON),
    (None, st.none()),
    (type(None), st.none()),
]


@cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """The values that a field of this type can have."""
    for known, values in KNOWN:
        if kind == known:
            return values
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Recorded):
        hints = get_type_hints(kind, include_extras=True)
        fields = {name: values_of(hints[name]) for name in kind.model_fields}
        return st.fixed_dictionaries(fields).map(kind.model_validate)
    if origin is Annotated:
        is_text = inner[0] is str
        return TEXT.filter(len) if is_text else values_of(inner[0])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(values_of(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(*map(values_of, inner), max_size=2)
    return st.one_of([values_of(each) for each in inner])


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
@given(data=st.data())
def test_every_event_that_is_written_is_read_back(tmp_path_factory, data) -> None:
    path = tmp_path_factory.mktemp("lab") / "runs" / "sweeps" / "s" / "journal.jsonl"
    with Journal(path) as own:
        appended = [
            own.append(data.draw(values_of(kind)))[1] for kind in get_args(get_args(Event)[0])
        ]
        read = [event for _, event in own.read()]
    assert [dump(event) for event in read] == [dump(event) for event in appended]


def test_packed_numbers_that_are_damaged_or_fill_the_memory_are_left_out(
    board, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(packing, "MOST_EXAMPLES", 1000)
    good = {
        "task": "sts12", "split": "test", "identity": "e1", "subsets": {"all": 3},
        "values": pack(np.zeros(3, np.float32)), "gold": pack(np.zeros(3)), "data_sha256": "d",
    }  # fmt: skip
    bomb = pack(np.zeros(10_000_000))
    bad = {
        "values": {"values": bomb},
        "gold": {"gold": bomb},
        "counts": {"values": pack(np.zeros(2, np.float32))},
        "subsets": {"subsets": {"all": 2**31 - 1}},
        "torn": {"gold": b64encode(b64decode(good["gold"])[:-4]).decode()},
        "garbage": {"values": b64encode(b"no zlib").decode()},
        "no base64": {"values": "é"},
        "other pairs of the set": {
            "subsets": {"all": 2}, "values": pack(np.zeros(2, np.float32)),
            "gold": pack(np.zeros(2)),
        },
    }  # fmt: skip
    events = [sweep_started(), *LIFE]
    for hours, changes in enumerate(({}, *bad.values())):
        time = NOON + timedelta(hours=hours)
        event = trial_evaluated("c0-42", {"test/sts12_spearman": 0.5}, time=time)
        pairs = PackedExamples(**{**good, **changes})
        events.append(event.model_copy(update={"examples": (pairs,)}))
    tracemalloc.start()
    apply_events(board, events)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    said = [r.getMessage() for r in caplog.records if "skips a trial_evaluated" in r.getMessage()]
    assert len(said) >= 6  # each reason once
    with board.session() as session:
        assert session.query(ExampleValuesRecord).count() == 1


def test_an_output_that_unpacks_to_more_than_the_memory_is_cut(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(output, "MOST_BYTES", 1 << 20)
    file = tmp_path / "trial-0.txt.gz"
    file.write_bytes(gzip.compress(b"line\n" * (1 << 18)) * 200)
    tracemalloc.start()
    text = read_output(file)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert len(text) < 1.1 * (1 << 20) and "left out: everything after the first 1 MiB" in text
    file.write_bytes(gzip.compress(b"whole\n") + gzip.compress(b"torn\n")[:-9])
    assert read_output(file).startswith("whole\n")
    file.unlink()
    os.mkfifo(file)
    assert read_output(file) == ""


def test_a_text_that_is_too_long_for_an_index_is_skipped_and_said(board, caplog) -> None:
    """PostgreSQL refuses it, SQLite stores it; what follows is applied on both."""
    long = "".join(sha256(bytes([n])).hexdigest() for n in range(200))
    late = trial_evaluated("c0-42", {"test/sts12_spearman": 0.5}, identity=long)
    after = trial_evaluated("c0-42", {"test/sts12_spearman": 0.5})
    apply_events(board, [sweep_started(), *LIFE, late, after])
    skips = any("skips a trial_evaluated" in r.getMessage() for r in caplog.records)
    with board.session() as session:
        query = session.query(ScoreRecord).filter_by(split="test")
        assert query.count() == (1 if skips else 2)
        assert skips == (session.get_bind().dialect.name == "postgresql")
