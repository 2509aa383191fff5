import io
import logging
from typing import Any
from unittest.mock import Mock

import pytest
from in_process import NewDrive, new_spec, screen_lines
from pydantic import SecretStr, ValidationError

from cse_platform.cli.following import FollowedSweep
from cse_platform.errors import StoreDownError, SweepRefusedError
from cse_platform.launch.progress import SweepProgress
from cse_platform.launch.run import failure_notified, notify
from cse_platform.leaderboard import Leaderboard
from cse_platform.runner.driver import warnings_recorded
from cse_platform.secrets import mask_text
from cse_platform.stores.sql.store import Store
from cse_platform.sweep.preflight import refuse_unknown_service
from cse_platform.sweep.problems import format_value
from cse_platform.tracking import journal


@pytest.fixture
def drive(start: NewDrive) -> Any:
    return start()


def test_warnings_reach_the_store(drive, monkeypatch) -> None:
    """Once, in their order, without secrets, and those of the journal itself on stderr alone."""
    printed = io.StringIO()
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr("sys.stderr", printed)
    with warnings_recorded(drive.state):
        logging.getLogger("cse_platform.runner").warning("node %s differs", "gpu7")
        logging.getLogger("cse_platform.runner").info("no news")
        logging.getLogger(journal.__name__).warning("no room")
        drive.state.send_message("at http://lab:PASSWORD@db.lab")
    logging.getLogger("cse_platform.runner").warning("after the end")
    drive.recorder.flush(10)
    board: Store = drive.state.leaderboard
    said = [line.text for line in FollowedSweep(board, "small").new_lines()]
    assert said == ["node gpu7 differs", "at http://lab:***@db.lab"]
    assert printed.getvalue() == "node gpu7 differs\nno room\nafter the end\n"
    assert [one.text for one in drive.history.messages] == said


def test_a_followed_sweep_has_the_table_of_its_driver(drive, tmp_path) -> None:
    (plan,) = drive.start()
    while drive.running:
        drive.advance(plan.key)
    (second,) = drive.start()
    there = FollowedSweep(drive.state.leaderboard, "small")
    for _ in range(2):  # what comes meanwhile is added to what was read before
        drive.advance(second.key)
        drive.recorder.flush(10)
        there.new_lines()
    here = SweepProgress(drive.state, errors=tmp_path)
    rows = [screen_lines(view) for view in (there, here)]
    assert rows[0][1:] == rows[1][1:] and len(rows[0]) > 4
    assert rows[0][0].startswith("small: 1 of 3 trials · best ")


def test_a_leaderboard_that_is_down_is_asked_again(drive, monkeypatch) -> None:
    drive.recorder.flush(10)
    followed = FollowedSweep(drive.state.leaderboard, "small")
    followed.new_lines()
    drive.state.send_message("first")
    drive.recorder.flush(10)
    with monkeypatch.context() as down:
        down.setattr(Leaderboard, "sweep", Mock(side_effect=StoreDownError("no route")))
        assert followed.new_lines() == []
        assert "no route" in followed.summary()
    assert [line.text for line in followed.new_lines()] == ["first"]
    assert "no route" not in followed.summary()


pytest.importorskip("apprise")


def test_error_that_ends_a_sweep_is_told(hook) -> None:
    with pytest.raises(SweepRefusedError), failure_notified("small", [SecretStr(hook.url)]):
        raise SweepRefusedError("all failed alike")
    assert hook.wait_for("small: failed") == "all failed alike"
    with pytest.raises(KeyboardInterrupt), failure_notified("small", [SecretStr(hook.url)]):
        raise KeyboardInterrupt
    assert len(hook.heard) == 1


def test_service_that_does_not_answer_fails_nothing(caplog) -> None:
    notify("small", [SecretStr("json://127.0.0.1:1/hook-4711")], "finished", "")
    assert [line.levelname for line in caplog.records if line.name.startswith("cse")] == ["WARNING"]
    assert "hook-4711" not in caplog.text


def test_url_is_shown_nowhere() -> None:
    url = "slak://hook-4712/abc"
    with pytest.raises(ValidationError):
        new_spec(notify=url)  # no list
    for address in ("me@lab.de", ["me@lab.de"]):
        with pytest.raises(ValidationError, match=r"such as slack://.* or mailto://.*running\.md"):
            new_spec(notify=address)
    assert "hook-4712" not in format_value(url)
    spec = new_spec(notify=[url])
    with pytest.raises(SweepRefusedError, match="knows no service of this URL; ") as refused:
        refuse_unknown_service(spec.notify[0])
    shown = [str(refused.value), repr(spec), spec.model_dump_json(), mask_text(f"+  - {url}\n")]
    assert "hook-4712" not in "".join(shown)
