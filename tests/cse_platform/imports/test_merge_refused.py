"""Merging: what is refused, and that the other store stays as it is."""

import hashlib
import os
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine, text
from stored_trials import trials_of, url_of

from cse_platform.errors import ImportRefusedError, NoStoreError, StoreError
from cse_platform.leaderboard.ingest.merge import merge
from cse_platform.leaderboard.store import open_other_store, open_store
from cse_platform.leaderboard.upgrade import alembic_config, open_migration
from cse_platform.runner.models import TRIAL_FILE, may_hold_model


@pytest.mark.slow
def test_rehearsals_and_sweeps_never_share_a_leaderboard(
    filled, sweep_started, trial_life, contents
) -> None:
    rehearsed = filled([sweep_started(spec={"smoke": True}), *trial_life(0, {1: 0.5})])
    real = filled([sweep_started("second", spec={}), *trial_life(1, {1: 0.5}, sweep="second")])
    before, nothing = contents(real), filled([])
    for board in (real, nothing):
        with pytest.raises(ImportRefusedError, match=r"made by cse-sweep --smoke: their numbers"):
            merge(board, rehearsed)
    assert contents(real) == before
    with pytest.raises(ImportRefusedError, match="this leaderboard holds rehearsals"):
        merge(rehearsed, real)
    again = filled([sweep_started("third", spec={"smoke": True})])
    assert merge(again, rehearsed).trials == 1


def test_sweeps_that_share_a_name_are_refused_all_at_once(
    filled, sweep_started, trial_life, contents
) -> None:
    spec = {"space": {"tau2": [0.1, 0.2]}, "search": {"sampler": "tpe", "seed": 42}}
    changed = {"space": {"tau2": [0.1]}, "search": {"sampler": "tpe", "seed": 7}, "sweep": "first"}
    here = filled([sweep_started(spec=spec), sweep_started("second", spec=spec)])
    there = filled(
        [
            sweep_started(spec=changed),
            *trial_life(0, {1: 0.5}),
            sweep_started("second", backbone="bert-base", spec=spec),
            sweep_started("third", spec=spec),
        ]
    )
    before = contents(here)
    with pytest.raises(ImportRefusedError, match="2 of the 3 sweeps there") as caught:
        merge(here, there)
    assert "--rename NAME=NEWNAME" in str(caught.value)
    assert (
        "first: space.tau2 = [0.1, 0.2] here, [0.1] there; search.seed = 42 here, 7 there\n"
    ) in str(caught.value)
    assert "second: backbone = 'mini' here, 'bert-base' there" in str(caught.value)
    assert contents(here) == before
    rename = {"first": "theirs", "second": "large"}
    assert merge(here, there, rename=rename).sweeps == 3
    assert merge(here, there, rename=rename).sweeps == 0
    with here.session() as session:
        assert [row.key for row in trials_of(session, "theirs")] == ["c0-42"]
    assert "'sweep': 'theirs'" in repr(contents(here)["sweeps"]).replace('"', "'")


@pytest.mark.slow
def test_a_default_that_a_version_did_not_know_makes_no_other_sweep(filled, sweep_started) -> None:
    spec = {"corpus": [{"name": "wiki1m"}], "dev": {"search": "stsb"}, "fixed": None}
    later = {
        "corpus": [{"name": "wiki1m", "split_at": None}],
        "dev": {"search": "stsb", "also": []},
        "fixed": {},
        "tags": [],
    }
    here = filled([sweep_started(spec=spec)])
    assert merge(here, filled([sweep_started(spec=later)])).sweeps == 0
    other = {**later, "corpus": [{"name": "wiki1m", "split_at": 32}]}
    message = r"first: corpus\.0\.split_at = null here, 32 there$"
    with pytest.raises(ImportRefusedError, match=message):
        merge(here, filled([sweep_started(spec=other)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"frist": "a"}, "--rename frist: no sweep of that name is there; did you mean 'first'"),
        ({"first": "second"}, "two sweeps the name second"),
    ],
)
def test_a_wrong_rename_is_refused(rename, message, filled, sweep_started) -> None:
    there = filled([sweep_started(), sweep_started("second")])
    with pytest.raises(ImportRefusedError, match=message):
        merge(filled([]), there, rename=rename)


@pytest.mark.slow
def test_the_other_store_is_only_read(filled, sweep_started, trial_life, tmp_path) -> None:
    """Of an older schema, it is read through a copy."""
    there = filled([sweep_started(), *trial_life(0, {1: 0.5})])
    url = url_of(there)
    there.close()
    engine = create_engine(url)
    with open_migration(engine) as connection:
        command.downgrade(alembic_config(connection), "0002")
    engine.dispose()
    file = Path(url.removeprefix("sqlite:///"))
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    here = filled([])
    with open_other_store(url) as source:
        merge(here, source)
    with here.session() as session:
        assert [row.key for row in trials_of(session, "first")] == ["c0-42"]
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before


@pytest.mark.slow
def test_what_is_no_store_is_refused(tmp_path) -> None:
    missing = open_other_store(f"sqlite:///{tmp_path / 'none.db'}")
    with pytest.raises(NoStoreError, match=r"no leaderboard at sqlite:////.*/none.db"), missing:
        pass
    (tmp_path / "notes.txt").write_text("no database, but longer than the header of one\n" * 50)
    wrong = open_other_store(f"sqlite:///{tmp_path / 'notes.txt'}")
    with pytest.raises(StoreError, match=r"notes.txt: file is not a database"), wrong:
        pass


@pytest.mark.postgres
def test_an_older_schema_on_a_server_is_refused() -> None:
    server = os.environ["CSE_TEST_POSTGRES"]
    open_store(server).close()
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text("UPDATE cse_schema_version SET version_num = '0002'"))
    engine.dispose()
    message = "of another schema than this version's"
    with pytest.raises(StoreError, match=message), open_other_store(server):
        pass
    engine = create_engine(server)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


@pytest.mark.slow
def test_names_that_no_sweep_file_can_have_are_refused(
    filled, sweep_started, trial_life, contents
) -> None:
    here, name = filled([sweep_started()]), "../../x<script>"
    there = filled([sweep_started(name), *trial_life(0, {1: 0.5}, sweep=name)])
    before = contents(here)
    with pytest.raises(ImportRefusedError, match=r"--rename NAME=NEWNAME(.|\n)*100 letters"):
        merge(here, there)
    with pytest.raises(ImportRefusedError, match=r"100 letters"):
        merge(here, there, rename={name: "a/b"})
    assert contents(here) == before
    assert merge(here, there, rename={name: "theirs"}).sweeps == 1


@pytest.mark.slow
def test_keys_that_are_paths_are_refused(filled, sweep_started, trial_life) -> None:
    there = filled([sweep_started(), *trial_life(0, {1: 0.5}, trial="../../../etc/x")])
    with pytest.raises(ImportRefusedError, match="key that none can have"):
        merge(filled([]), there)


@pytest.mark.slow
def test_a_model_comes_only_where_its_folder_names_the_trial(
    filled, sweep_started, trial_life, tmp_path
) -> None:
    kept, strange = tmp_path / "kept", tmp_path / "strange"
    older = tmp_path / "c2-42"
    for folder in (kept, strange, older):
        folder.mkdir()
    (kept / TRIAL_FILE).write_text("c0-42\n")
    models = [kept, strange, older, tmp_path / "elsewhere"]
    events = [sweep_started()]
    for number, model in enumerate(models):
        events += trial_life(number, {1: 0.5}, model=str(model))
    here = filled([sweep_started(), *trial_life(1, {1: 0.4}, state="FAIL")])
    merge(here, filled(events), takes_model=may_hold_model)
    with here.session() as session:
        taken = [trial.model for trial in trials_of(session, "first")]
    assert taken == [str(kept), None, str(older), str(tmp_path / "elsewhere")]
