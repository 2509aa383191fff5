import cheap as _registers_it  # noqa: F401
import pytest

pytest.importorskip("apprise")


@pytest.mark.slow
def test_end_of_a_sweep_is_told_and_the_address_is_not_kept(
    new_sweep, run_in_process, tmp_path, hook, monkeypatch
) -> None:
    sweep = new_sweep(tmp_path, notify=[hook.url])
    typed = "--set", f"notify.0={hook.url}"
    monkeypatch.setattr("sys.argv", ["cse-sweep", str(sweep.file), *typed])
    ended = run_in_process(sweep, *typed)
    assert "3 complete" in hook.wait_for("tiny: finished")
    assert hook.secret not in ended.output
    files = [file for file in sweep.runs.rglob("*") if file.is_file()]
    assert len(files) > 5
    assert [file for file in files if hook.secret.encode() in file.read_bytes()] == []
    run_in_process(sweep)
    assert len(hook.heard) == 1  # nothing new
