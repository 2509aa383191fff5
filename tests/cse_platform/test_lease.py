import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sweep_events import sweep_started

from cse_platform.errors import LeaseLostError, StoreDownError, StoreError, SweepRefusedError
from cse_platform.leaderboard import Leaderboard
from cse_platform.stores.sql.lease import Lease, lease_owners
from cse_platform.stores.sql.sink import LeaderboardSink
from cse_platform.stores.sql.store import Store, open_store
from cse_platform.tracking.journal import Journal

LONG_AGO = "UPDATE sweep_leases SET heartbeat = '2020-01-01 00:00:00'"
AHEAD = "UPDATE sweep_leases SET heartbeat = '2999-01-01 00:00:00'"
GONE = "UPDATE sweep_leases SET pid = 2147483646"


@pytest.fixture
def other(board, leaderboard_url) -> Iterator[Store]:
    """The same leaderboard, as another driver has it open."""
    with open_store(leaderboard_url) as opened:
        yield opened


@pytest.fixture
def journal(tmp_path) -> Iterator[Journal]:
    with Journal(tmp_path / "here" / "journal.jsonl") as opened:
        yield opened


@pytest.fixture
def elsewhere(tmp_path) -> Iterator[Journal]:
    with Journal(tmp_path / "elsewhere" / "journal.jsonl") as opened:
        yield opened


def change(board: Store, statement: str) -> None:
    with board.writing() as session:
        session.execute(text(statement))


def test_second_driver_is_told_who_holds_the_sweep(board, other, journal, elsewhere) -> None:
    with Lease(board, "first", journal):
        with board.session() as session:
            holder = lease_owners(session)["first"]
        assert holder.lives
        for second in (journal, elsewhere):
            with pytest.raises(SweepRefusedError, match=f"process {holder.pid} on {holder.host} "):
                Lease(other, "first", second)
        Lease(other, "second", elsewhere).close()
    with Lease(other, "first", journal):  # it was given back
        pass


@pytest.mark.parametrize("begun", [True, False])
def test_a_name_of_a_journal_elsewhere_is_not_waited_for(
    board, other, journal, elsewhere, begun
) -> None:
    with Lease(board, "first", elsewhere) as lease:
        if begun:
            LeaderboardSink(board, lease).apply(elsewhere.id, [(1, sweep_started("first"))])
        with pytest.raises(SweepRefusedError) as refused:
            Lease(other, "first", journal)
    said = str(refused.value)
    assert f"from the journal in {elsewhere.path.parent} on" in said and "NEWNAME" in said
    assert "wait" not in said and "stop first" not in said


def test_a_driver_with_a_copy_of_the_journal_elsewhere_is_named_with_its_folder(
    board, other, journal, tmp_path
) -> None:
    copied = tmp_path / "copied" / "journal.jsonl"
    copied.parent.mkdir()
    shutil.copy(journal.path, copied)
    with Journal(copied) as copy:
        with Lease(board, "first", journal) as lease:
            LeaderboardSink(board, lease).apply(journal.id, [(1, sweep_started("first"))])
            there = f" in {journal.path.parent} since .*; wait until it ends, .*NEWNAME"
            with pytest.raises(SweepRefusedError, match=there):
                Lease(other, "first", copy)
        with Lease(other, "first", copy):  # it goes on here
            pass


def test_the_last_batch_of_a_driver_is_written_after_its_end(board, other, journal) -> None:
    lease = Lease(board, "first", journal)
    sink = LeaderboardSink(board, lease)
    lease.close()
    sink.apply("j", [])
    assert not lease.is_lost
    with Lease(other, "first", journal), pytest.raises(LeaseLostError):
        sink.apply("j", [])


def test_of_many_that_start_at_once_one_holds_the_sweep(leaderboard_url, board, journal) -> None:
    stores = [open_store(leaderboard_url) for _ in range(8)]

    def take(store: Store) -> Lease | None:
        try:
            return Lease(store, "first", journal)
        except SweepRefusedError:
            return None

    with ThreadPoolExecutor(len(stores)) as threads:
        leases = [lease for lease in threads.map(take, stores) if lease is not None]
    assert len(leases) == 1
    leases[0].close()
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    "end", [LONG_AGO, AHEAD, GONE], ids=["silent", "silent since the clock was set back", "gone"]
)
def test_dead_driver_is_replaced(board, other, journal, end) -> None:
    dead = Lease(board, "first", journal)
    change(board, end)
    with Lease(other, "first", journal), other.session() as session:
        assert lease_owners(session)["first"].lives
    dead.close()


def test_process_of_another_machine_is_not_gone(board, other, journal) -> None:
    with Lease(board, "first", journal):
        change(board, "UPDATE sweep_leases SET pid = 2147483646, machine = 'another'")
        with pytest.raises(SweepRefusedError):
            Lease(other, "first", journal)


def test_driver_that_was_replaced_writes_nothing_more(board, other, journal) -> None:
    heard: list[str] = []
    lost = Lease(board, "first", journal)
    lost.on_lost = lambda: heard.append("lost")
    lost.check()
    change(board, LONG_AGO)
    with Lease(other, "first", journal):
        for _ in range(2):
            with pytest.raises(LeaseLostError):
                LeaderboardSink(board, lost).apply("j", [(1, sweep_started("first"))])
        with pytest.raises(LeaseLostError):
            lost.check()
        lost.close()
        with other.session() as session:
            assert Leaderboard(other).sweeps() == []
            assert lease_owners(session)["first"].lives
    assert heard == ["lost"]


def test_sweep_goes_on_from_its_journal_alone(board, journal, elsewhere) -> None:
    with Lease(board, "first", journal):
        pass
    with Lease(board, "first", elsewhere) as lease:  # of which nothing was begun
        LeaderboardSink(board, lease).apply("j", [(1, sweep_started("first"))])
    there = rf"goes on from the journal in {elsewhere.path.parent} on .* {journal.path.parent}"
    with pytest.raises(SweepRefusedError, match=f"{there}; start it there, .*NEWNAME"):
        Lease(board, "first", journal)
    elsewhere.close()
    elsewhere.path.unlink()
    with (
        Journal(elsewhere.path) as new,
        pytest.raises(SweepRefusedError, match=f"is gone from {elsewhere.path.parent}; .*NEWNAME"),
    ):
        Lease(board, "first", new)


@pytest.mark.parametrize(
    "leaderboard_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
def test_holder_goes_on_while_the_leaderboard_is_down(board, leaderboard_url, journal) -> None:
    server = make_url(leaderboard_url)
    engine = create_engine(server.set(database="template1"), isolation_level="AUTOCOMMIT")

    def administer(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    with Lease(board, "first", journal) as lease:
        sink = LeaderboardSink(board, lease)
        administer("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        try:
            administer(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"
            )
            with pytest.raises(StoreDownError):
                sink.apply("j", [])
            lease.check()
        finally:
            administer("ALTER DATABASE postgres ALLOW_CONNECTIONS true")
        sink.apply("j", [])
        lease.check()
        with board.session() as session:
            assert lease_owners(session)["first"].lives
    engine.dispose()


EARLIER = "'2020-01-01 00:00:00'"


@pytest.mark.parametrize("holder", ["NULL", "'killed'"])
def test_lease_outlives_an_older_copy_of_the_leaderboard(board, other, journal, holder) -> None:
    with Lease(board, "first", journal) as lease:
        times = f"since = {EARLIER}, heartbeat = {EARLIER}"
        change(board, f"UPDATE sweep_leases SET holder = {holder}, {times}")
        LeaderboardSink(board, lease).apply("j", [])
        lease.check()
        with pytest.raises(SweepRefusedError, match="is held by"):
            Lease(other, "first", journal)
    with Lease(other, "first", journal):
        pass


@pytest.mark.parametrize("has_lease", [True, False])
def test_a_foreign_leaderboard_gets_nothing_and_ends_nothing(
    board, journal, elsewhere, has_lease
) -> None:
    with Lease(board, "first", journal) as lease:
        change(board, "DELETE FROM sweep_leases")
        with Lease(board, "first", elsewhere) as theirs:
            sink = LeaderboardSink(board, theirs)
            sink.apply(elsewhere.id, [(1, sweep_started("first"))])
        if not has_lease:
            change(board, "DELETE FROM sweep_leases")
        with pytest.raises(StoreError, match=r"another sweep named 'first'.* rebuild"):
            LeaderboardSink(board, lease).apply(journal.id, [(1, sweep_started("first"))])
        lease.check()
        assert LeaderboardSink(board).position(journal.id) == 0
    with pytest.raises((StoreError, SweepRefusedError), match="cse-leaderboard rebuild"):
        Lease(board, "first", journal)


@pytest.mark.parametrize("leaderboard_url", ["sqlite"], indirect=True)
def test_a_leaderboard_that_is_deleted_meanwhile_is_made_anew(
    board, leaderboard_url, journal, caplog
) -> None:
    file = Path(str(make_url(leaderboard_url).database))
    entries = [journal.append(sweep_started("first")) for _ in range(2)]
    with Lease(board, "first", journal) as lease:
        sink = LeaderboardSink(board, lease)
        sink.apply(journal.id, entries[:1])
        for left in file.parent.glob(f"{file.name}*"):
            left.unlink()
        with pytest.raises(StoreError):
            sink.apply(journal.id, entries[1:])
        assert sink.position(journal.id) == 0
        assert "cse-leaderboard rebuild adds the rest" in caplog.text
        sink.apply(journal.id, entries)
        with board.session() as session:
            assert lease_owners(session)["first"].lives
        assert [sweep.name for sweep in Leaderboard(board).sweeps()] == ["first"]
