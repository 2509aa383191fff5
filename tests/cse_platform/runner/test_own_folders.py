from pathlib import Path

import pytest
from in_process import new_spec

from cse_platform.errors import SweepRefusedError
from cse_platform.own_folders import OwnFolders
from cse_platform.safe_paths import find_below
from cse_platform.tracking.events import TrialCheckpoint

KEY = "0123456789abcdef" * 4


def file_in(folder: Path) -> Path:
    """Make a folder with one file; returns the file."""
    folder.mkdir(parents=True)
    (folder / "weights").touch()
    return folder / "weights"


def test_what_lies_below_a_folder(tmp_path) -> None:
    real, theirs = tmp_path / "real", tmp_path / "theirs"
    for folder in (real / "own" / "a", theirs / "a"):
        file_in(folder)
    (tmp_path / "runs").symlink_to(real)
    (real / "own" / "link").symlink_to(theirs)
    (real / "own" / "loop").symlink_to("loop")
    inside = {
        f"{real}/own/a": "a",
        f"{tmp_path}/runs/own/a/": None,  # no name
        f"{tmp_path}/runs/own/a/weights": "a/weights",
        f"{tmp_path}/theirs/../real/own/a": "a",
        f"file://{tmp_path}/runs/own/a": "a",
        f"{real}/own/link": "link",  # the link itself
        f"{real}/own/a%2e%2e": "a%2e%2e",  # a name as any other, on a disk
        f"{real}/own": None,
        f"{real}/own/": None,
        f"{real}/own/..": None,
        f"{real}/own/a/../../other": None,
        f"{real}/own/link/a": None,
        f"{real}/own/a\0/b": None,
        f"{real}/owner/a": None,
        f"{theirs}/a": None,
        "own/a": None,
        "": None,
    }  # fmt: skip
    for location, below in inside.items():
        found = find_below(f"{real}/own", location)
        assert found == (below and f"{real}/own/{below}"), location
    remote = "s3://lab/runs/artifacts/models"
    assert find_below(remote, f"{remote}/k") == f"{remote}/k"
    elsewhere = ("", "/", "/..", "/%2e%2e/k", "/k?endpoint_override=them", "2/k")
    for rest in elsewhere:
        assert find_below(remote, f"{remote}{rest}") is None, rest
    assert find_below(remote, "gs://lab/runs/artifacts/models/k") is None


def test_links_that_lead_to_the_storage_are_followed_and_others_stay(tmp_path, caplog) -> None:
    """As in a copy of a runs folder whose models lie on another disk by a link."""
    theirs = file_in(tmp_path / "disk" / "models" / KEY[:16])
    for runs in ("mine", "linked"):
        file_in(tmp_path / runs / "sweeps" / "a" / "ray" / "t" / "checkpoint_0")
    (tmp_path / "linked" / "artifacts").symlink_to(tmp_path / "disk")
    own = file_in(tmp_path / "mine" / "artifacts" / "models" / KEY[:16])
    (tmp_path / "runs").symlink_to(tmp_path / "mine")
    for runs, goes in (("linked", False), ("runs", True)):
        folders = OwnFolders(str(tmp_path / runs), "a", tmp_path / runs)
        assert folders.holds_model(folders.model_location(KEY), KEY) == goes
        folders.delete_model(KEY)
        folders.delete_checkpoints()
        folders.close()
    assert theirs.exists() and not own.exists()
    assert not list(tmp_path.glob("*/sweeps/a/*"))
    assert f"{tmp_path}/linked/artifacts/models/{KEY[:16]} was not deleted" in caplog.text


def test_the_name_of_a_model_is_that_of_its_trial(tmp_path) -> None:
    folders = OwnFolders(str(tmp_path), "a", tmp_path)
    other = file_in(tmp_path / "artifacts" / "models" / ("f" * 16))
    assert not folders.holds_model(str(other.parent), KEY)
    for key in ("..", ".", "", "../../sweeps"):
        folders.delete_model(key)
        assert not folders.holds_model(folders.model_location(key), key)
    folders.delete_checkpoint(str(other.parent))
    folders.close()
    assert other.exists()


def journal_of(runs: Path) -> Path:
    """Make the journal of sweep `a` in a runs folder."""
    (runs / "sweeps" / "a").mkdir(parents=True)
    (runs / "sweeps" / "a" / "journal.jsonl").touch()
    return runs / "sweeps" / "a" / "journal.jsonl"


def test_a_sweep_in_a_storage_is_that_of_one_runs_folder(tmp_path, monkeypatch) -> None:
    runs, storage = (tmp_path / "mine", tmp_path / "copy"), str(tmp_path / "disk")
    mine, copy = (OwnFolders(storage, "a", folder) for folder in runs)
    own = journal_of(runs[0])
    for folders, journal in ((mine, "1"), (copy, "1"), (copy, "2")):
        folders.refuse_other_owner(journal)  # nobody's yet
    mine.claim("1")
    (tmp_path / "link").symlink_to(runs[0])
    for folder in (runs[0], tmp_path / "link"):
        OwnFolders(storage, "a", folder).refuse_other_owner("1")
    OwnFolders(storage, "b", runs[1]).refuse_other_owner("1")
    for journal in ("1", "2"):
        with pytest.raises(SweepRefusedError, match=r"--set storage=.*owner\.json"):
            copy.refuse_other_owner(journal)
    with monkeypatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "other")
        mine.refuse_other_owner("1")  # as from another node
        for folders in (mine, copy):
            with pytest.raises(SweepRefusedError, match=f"that of the runs folder {runs[0]} on "):
                folders.refuse_other_owner("2")
    own.unlink()
    copy.refuse_other_owner("1")  # it was moved
    copy.claim("1")
    journal_of(runs[1])
    with pytest.raises(SweepRefusedError, match=f"that of the runs folder {runs[1]} on "):
        mine.refuse_other_owner("1")
    copy.delete_checkpoints(with_owner=True)
    mine.refuse_other_owner("1")


def test_sweeps_in_a_storage_elsewhere_have_models_of_their_own(tmp_path) -> None:
    """Another runs folder may have kept a model of an equal trial."""
    storage = str(tmp_path / "disk")
    mine, theirs = (OwnFolders(storage, name, tmp_path / name) for name in "ab")
    kept = [file_in(Path(folders.model_location(KEY))) for folders in (mine, theirs)]
    assert not mine.holds_model(theirs.model_location(KEY), KEY)
    mine.delete_model(KEY)
    assert [file.exists() for file in kept] == [False, True]


def test_a_runs_folder_is_its_own_storage(tmp_path) -> None:
    runs = tmp_path / "mine"
    journal_of(runs)
    mine = OwnFolders(str(runs), "a", runs)
    mine.refuse_other_owner("1")
    mine.claim("1")
    assert not list(runs.rglob("owner.json"))
    with pytest.raises(SweepRefusedError, match=f"that of the runs folder {runs} on "):
        OwnFolders(str(runs), "a", tmp_path / "copy").refuse_other_owner("1")


def test_a_start_leaves_the_checkpoints_of_another_runs_folder(start, tmp_path) -> None:
    spec = new_spec(search={"trials": 1})
    mine = {"folder": Path("mine", "sweeps", spec.sweep), "storage": tmp_path / "shared"}
    drive = start(spec, **mine)
    (plan,) = drive.start()
    drive.report(plan.key, 2)
    drive.close()
    folders, theirs = drive.state.folders, tmp_path / "theirs"
    checkpoint = file_in(Path(folders.checkpoints) / "t" / "checkpoint_9")
    journal = theirs / "sweeps" / spec.sweep / "journal.jsonl"
    file_in(journal.parent)
    journal.touch()
    OwnFolders(str(mine["storage"]), spec.sweep, theirs).claim("1")
    with pytest.raises(SweepRefusedError, match=f"runs folder {theirs} on "):
        start(spec, **mine)
    assert checkpoint.exists()
    journal.unlink()
    start(spec, **mine).close()
    assert not checkpoint.exists()


@pytest.mark.parametrize("end", ["goes on", "fails", "changed"])
def test_a_strangers_checkpoint_is_read_alone(start, identity, tmp_path, end) -> None:
    spec = new_spec(search={"trials": 1})
    drive = start(spec)
    (plan,) = drive.start()
    drive.report(plan.key, 2)
    victim = file_in(tmp_path / "thesis")
    given = {"sweep": spec.sweep, "trial": plan.key, "step": 2}
    drive.state.record(TrialCheckpoint(**given, checkpoint=str(victim.parent)))
    drive.close()
    again = start(spec)
    (resumed,) = again.start()
    assert resumed.checkpoint == (2, str(victim.parent))
    if end == "goes on":
        again.report(plan.key, 4)
        again.complete(plan.key)
    elif end == "fails":
        again.fail(plan.key, "ValueError: no", crashed=False)
    else:
        again.state.live[plan.key].refused = "no"
        again.results.record_end(again.state.live[plan.key])
    again.state.folders.close()
    assert victim.exists()
