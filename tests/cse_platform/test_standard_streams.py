import io
import json
import logging
import re
import signal
import sys
import unicodedata

import click
import pytest
from lost_streams import full_disk, lost_terminal
from processes import python
from rich.console import Console
from rich.text import Text

from cse_platform.cli import submitted, sweep
from cse_platform.cli.common import say, shows_errors
from cse_platform.errors import StoreError
from cse_platform.render.table import Terminal, print_page, text_table
from cse_platform.signals import interrupt, interrupt_handler_kept
from cse_platform.standard_streams import echo, escape_controls, unwritable_dropped
from cse_platform.tracking.submission import ORDER_FILE, SUBMISSION


@pytest.mark.parametrize("lost", [full_disk, lost_terminal])
def test_only_data_that_cannot_be_written_is_an_error(lost, monkeypatch) -> None:
    @click.command()
    @shows_errors
    def shown() -> None:
        say("reading", log="stdout")
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
from cse_platform.signals import heed_sigterm

class Hit:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job ignores it
heed_sigterm()
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
from cse_platform.signals import heed_sigterm

class Hit(sqlite3.Connection):
    def close(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
heed_sigterm()
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
