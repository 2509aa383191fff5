import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import servers
from click.testing import CliRunner
from processes import SECONDS, end_of
from store_contents import assert_stores_agree
from stored_trials import write_journal
from sweep_events import sweep_started, trial_life
from sweeps import CHEAP, write_sweep

from cse_platform.cli.leaderboard import main
from cse_platform.tracking.events import TrialPoint

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own for the runs of the sweep in `tmp_path`, enough for a whole sweep."""
    try:
        with servers.small_disk(tmp_path / "runs", megabytes=32) as disk:
            yield disk
    except PermissionError as refusal:
        pytest.skip(str(refusal))


def fill(disk: Path) -> None:
    with (disk / "ballast").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def test_a_full_disk_holds_a_sweep(small_disk: Path, tmp_path: Path) -> None:
    three = {"space": {"depth": [1, 2, 3]}, "search": {"sampler": "grid"}}
    written = write_sweep(tmp_path, CHEAP, gate=0, fixed={"kind": "b"}, **three)
    # A store that takes back its transaction frees some pages: no checkpoint may fit into them.
    sweep = replace(written, surroundings={"CHEAP_SIZE": "2000000"})
    said: list[str] = []
    at_once = psutil.cpu_count() or 1
    with end_of(sweep.start()) as process:
        listener = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")))
        listener.start()
        sweep.wait_for(process, TrialPoint, min(at_once, 3))
        fill(small_disk)
        sweep.let(6)
        deadline = time.monotonic() + SECONDS
        while not any("waits: no room" in line for line in said):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            fill(small_disk)
            time.sleep(0.1)
        assert all(trial.state == "RUNNING" for trial in sweep.history().trials.values())
        (small_disk / "ballast").unlink()
        process.stdout.read()
        assert process.wait(timeout=SECONDS) == 0, said
        listener.join()
    trials = sweep.history().trials.values()
    assert [(t.state, sorted(t.curve)) for t in trials] == [("COMPLETE", [0, 2, 4, 6])] * 3
    assert all(trial.resumed_from is None for trial in trials)
    assert_stores_agree(sweep)


def test_a_rebuild_without_room_says_so_and_leaves_what_was_there(tmp_path: Path) -> None:
    runs, rooms = tmp_path / "runs", (1, 2, 3, 4, 16)
    life = [event for n in range(200) for event in trial_life(n, dict.fromkeys(range(40), 0.5))]
    write_journal(runs / "sweeps" / "first" / "journal.jsonl", [sweep_started(), *life])
    codes = []
    for megabytes in rooms:  # it ends in the new file, in its log, or as that becomes part of it
        with servers.small_disk(tmp_path / f"disk-{megabytes}", megabytes) as disk:
            url = f"sqlite:///{disk / 'leaderboard.db'}"
            place = ("--only", "leaderboard", "--runs", runs, "--store", url)
            done = CliRunner().invoke(main, ["rebuild", *map(str, place)])
            assert done.exception is None or isinstance(done.exception, SystemExit), done
            assert ("disk is full; free some space" in done.output) == (done.exit_code == 1)
            assert not (disk / "leaderboard.db.new").exists()
            codes.append(done.exit_code)
    assert codes == sorted(codes, reverse=True) and {*codes} == {0, 1}
