"""People are told what becomes of a sweep, and nobody learns their addresses."""

import pytest
from pydantic import SecretStr, ValidationError

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.notifying import Notifier
from cse_platform.secrets import mask_text
from cse_platform.sweep.preflight import refuse_unknown_services
from cse_platform.sweep.problems import format_value
from cse_platform.tracking.recorder import SinkHealth

pytest.importorskip("apprise")


def test_stalled_trials_and_stores_that_stay_down_are_told_once(start, hook, monkeypatch) -> None:
    drive = start()
    (trial,) = drive.start()
    urls = [SecretStr(hook.url)]
    with Notifier("small", urls, patience=0) as notifier, notifier.watching(drive.state):
        drive.state.live[trial.key].stalled = True
        hook.wait_for("small: trial 0 has stalled")
        down = SinkHealth("search store", 1, "no answer from postgresql://ann:s3cret@lab/search")
        monkeypatch.setattr(drive.recorder, "health", lambda: [down])
        said = hook.wait_for("small: search store is behind")
        assert "s3cret" not in said
    assert len(hook.heard) == 2


def test_error_that_ends_a_sweep_is_told(hook) -> None:
    with pytest.raises(SweepRefusedError), Notifier("small", [SecretStr(hook.url)]):
        raise SweepRefusedError("all failed alike")
    assert hook.wait_for("small: failed") == "all failed alike"
    with pytest.raises(KeyboardInterrupt), Notifier("small", [SecretStr(hook.url)]):
        raise KeyboardInterrupt
    assert len(hook.heard) == 1


def test_service_that_does_not_answer_fails_nothing(caplog) -> None:
    with Notifier("small", [SecretStr("json://127.0.0.1:1/hook-4711")]) as notifier:
        notifier.tell("finished")
    assert [line.levelname for line in caplog.records if line.name.startswith("cse")] == ["WARNING"]
    assert "hook-4711" not in caplog.text


def test_url_is_shown_nowhere(new_spec) -> None:
    url = "slak://hook-4712/abc"
    with pytest.raises(ValidationError):
        new_spec(notify=url)  # no list
    assert "hook-4712" not in format_value(url)
    spec = new_spec(notify=[url])
    with pytest.raises(SweepRefusedError, match=r"notify\.0: ") as refused:
        refuse_unknown_services(spec.notify)
    shown = [str(refused.value), repr(spec), spec.model_dump_json(), mask_text(f"+  - {url}\n")]
    assert "hook-4712" not in "".join(shown)
