import io
import json
import logging
import re
import signal
import sys
import unicodedata
from contextlib import redirect_stderr

import click
import pytest
from lost_streams import full_disk, lost_terminal
from processes import python
from rich.console import Console
from rich.text import Text

from cse_platform.cli import submitted, sweep
from cse_platform.cli.common import shows_errors
from cse_platform.errors import StoreError
from cse_platform.presentation.tables import text_table
from cse_platform.presentation.terminal import Terminal, print_page, progress_bar, progress_lines
from cse_platform.signals import interrupt, interrupt_handler_kept
from cse_platform.standard_streams import announce, echo, escape_controls, unwritable_dropped
from cse_platform.tracking.submission import ORDER_FILE, SUBMISSION


@pytest.mark.parametrize("lost", [full_disk, lost_terminal])
def test_only_data_that_cannot_be_written_is_an_error(lost, monkeypatch) -> None:
    @click.command()
    @shows_errors
    def shown() -> None:
        announce("reading", log="stdout")
        click.echo("a note", err=True)
        with unwritable_dropped("stdout", "stderr"):
            Console().print("a trial")
        echo("data")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", lost())
        patch.setattr(sys, "stderr", lost())
        assert shown([], standalone_mode=False) == 1
        with unwritable_dropped("stderr"):
            sys.stdout.flush()  # as Python does at its end


def test_data_that_cannot_be_written_is_one_line(monkeypatch, capsys) -> None:
    @click.command()
    @click.argument("size", type=int)
    @shows_errors
    def shown(size: int) -> None:
        if not size:
            raise OSError("of a file")
        if size > 1:
            echo("x" * size)
        else:
            print_page([text_table(("a",), [("b",)])])

    for size in (1, 100_000):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full_disk())
            assert shown([str(size)], standalone_mode=False) == 1
        expected = "Error: standard output cannot be written: No space left on device\n"
        assert capsys.readouterr().err == expected
    with pytest.raises(OSError, match="of a file"):
        shown(["0"], standalone_mode=False)


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("gone", [lambda: None, closed], ids=["none", "closed"])
def test_a_closed_stream_is_the_null_device(gone, monkeypatch) -> None:
    @click.command()
    @shows_errors
    def shown() -> None:
        announce("reading", log="stdout")
        echo("a note", err=True)
        echo("data")
        print_page([text_table(("a",), [("b",)])])
        with progress_lines("at work") as move:
            move(description="at work", completed=1, total=2)
        with unwritable_dropped("stdout", "stderr"):
            Console().print("a trial")
        assert not sys.stdin.isatty() and sys.stdin.buffer.read() == b""
        raise StoreError("the end")

    with monkeypatch.context() as patch:
        for name in ("stdin", "stdout", "stderr"):
            patch.setattr(sys, name, gone())
        assert shown([], standalone_mode=False) == 1


CLOSED_BY_A_SCHEDULER = """
import os, sys
os.closerange(0, 3)
sys.stdin = sys.stdout = sys.stderr = None
import click
from cse_platform.cli.common import shows_errors

@click.command()
@shows_errors
def note():
    with open(sys.argv[1], "w") as file:
        file.write(str(file.fileno()))
        file.flush()
        for stream in (sys.stdout, sys.stderr):
            stream.write("a line")
            stream.flush()
        os.system("echo of a child; echo of a child >&2")

note([])
"""


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path) -> None:
    """What is printed, here or by a child, would be written into that file."""
    python(CLOSED_BY_A_SCHEDULER, str(tmp_path / "file"))
    assert int((tmp_path / "file").read_text()) > 2


class TerminalText(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_terminals_get_what_moves() -> None:
    forced = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TTY_INTERACTIVE": "1",
              "CLICOLOR_FORCE": "1", "PY_COLORS": "1", "TERM": "xterm"}  # fmt: skip
    for variables, on_terminal in (
        ({}, True), (forced, True), ({"TERM": "dumb"}, False), ({"TTY_INTERACTIVE": "0"}, False),
        *(({name: value}, True) for name, value in forced.items()),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            for name in forced:
                patch.delenv(name, raising=False)
            for name, value in {"TERM": "xterm", **variables}.items():
                patch.setenv(name, value)
            log, shown = Terminal(file=io.StringIO()), Terminal(file=TerminalText())
            found = log.is_terminal, log.is_interactive, shown.is_interactive
            assert found == (False, False, on_terminal), variables
            with redirect_stderr(io.StringIO()) as err, progress_bar("at work") as move:
                move(completed=1)
            assert err.getvalue() == "", variables


EVIL = "\x1b[2J\x1b]0;title\x07 \x9b31m\r\x08\x7f\u0085end"


def controls(printed: str) -> set[str]:
    """The characters of an output that a terminal obeys, without line breaks and rich's styles."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed)
    return {character for character in plain if unicodedata.category(character) == "Cc"} - {"\n"}


def test_no_text_of_a_trial_controls_the_terminal(capsys, monkeypatch) -> None:
    @click.command()
    @shows_errors
    def fail() -> None:
        logging.getLogger("cse_platform.any").warning("cut off: %s", EVIL)
        raise StoreError(EVIL)

    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich writes as to a terminal
    monkeypatch.setattr(logging.root, "handlers", [])
    assert fail([], standalone_mode=False) == 1
    echo(f"1 2\t3\r\n{EVIL}")
    print_page([text_table(("name", "error"), [(EVIL, EVIL)], title=EVIL)])
    for text in (EVIL, Text(EVIL, style="bold")):
        Terminal(highlight=False).print(text, style="red", soft_wrap=True)
    logging.getLogger("cse_platform.any").warning("of a library", 1)
    captured = capsys.readouterr()
    assert "not all arguments converted" in captured.err
    assert controls(captured.out) == {"\t", "\r"} and controls(captured.err) == set()
    assert captured.out.startswith(
        "1 2\t3\r\n\\x1b[2J\\x1b]0;title\\x07 \\x9b31m\\r\\x08\\x7f\\x85end\n"
    )
    assert captured.err.count("\\x1b[2J") == 2


def test_the_log_of_a_submitted_sweep_has_no_controls(tmp_path, capsys, monkeypatch) -> None:
    order = {"packages": {}, "runs": str(tmp_path / "runs"), "job": "j", "arguments": []}
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / ORDER_FILE).write_text(json.dumps(order))
    monkeypatch.chdir(tmp_path / "job")
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("cse_platform.runner.driver"), "level", logging.NOTSET)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setenv(submitted.RAY_JOB, "{}")
    monkeypatch.setenv(SUBMISSION, "")
    monkeypatch.setattr(sweep, "main", lambda: logging.getLogger("cse_platform.a").warning(EVIL))
    submitted.main()
    assert controls(capsys.readouterr().err) == set()


HIT_IN_A_FINALISER = """
import signal, threading
from cse_platform.signals import interrupt_on_sigterm

class Hit:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job ignores it
interrupt_on_sigterm()
try:
    hit = Hit()
    del hit
    threading.Event().wait(300)
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""

HIT_WHILE_A_CONNECTION_CLOSES = """
import signal, sqlite3
from sqlalchemy import create_engine
from cse_platform.signals import interrupt_on_sigterm

class Hit(sqlite3.Connection):
    def close(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
interrupt_on_sigterm()
engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:", factory=Hit))
engine.connect().close()
try:
    engine.dispose()
    print("lost")
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_is_heard_whatever_handler_was_left_behind() -> None:
    with interrupt_handler_kept():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever earlier tests have left
        with interrupt_handler_kept():
            signal.signal(signal.SIGINT, lambda *_: None)
            interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()
    with interrupt_handler_kept():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_ctrl_c_that_hits_tidying_up_is_heard_and_prints_nothing() -> None:
    for script in (HIT_IN_A_FINALISER, HIT_WHILE_A_CONNECTION_CLOSES):
        ran = python(script)
        assert (ran.stdout, ran.stderr) == ("heard\n", "")


def test_no_character_turns_the_direction_of_text_or_breaks_a_line_unseen() -> None:
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    obeyed = [*"\u061c\u200e\u200f\u2028\u2029\x85"]
    obeyed += [
        c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.bidirectional(c) in turning
    ]
    assert "\u202e" in obeyed and len(obeyed) == 15
    shown = [escape_controls(f"a{character}b") for character in obeyed]
    assert shown == [f"a{ascii(character)[1:-1]}b" for character in obeyed]
    said = io.StringIO()
    Terminal(file=said).print(Text("gpj\u202e.exe"))
    assert said.getvalue() == "gpj\\u202e.exe\n"
    assert escape_controls("שלום, ünï 漢字") == "שלום, ünï 漢字"
