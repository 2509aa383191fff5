from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Column,
    Double,
    Integer,
    MetaData,
    StaticPool,
    Table,
    Text,
    create_engine,
    select,
)
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.counting_seeds import find_choosing_trials
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.records import best_key, dev_key
from cse_platform.leaderboard.selection import best_first
from cse_platform.search.confirmation import best_configurations as chosen_by_sweep
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import ScoreRecord
from cse_platform.tracking.events import Event
from cse_platform.tracking.history import History

# Sums of these in another order differ in the last bit, and many of their means are equal.
scores = st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.1 + 0.2])
roles = st.sampled_from(["search", "repeat", "confirm"])
seeds_of_configurations = st.lists(
    st.lists(st.tuples(scores, roles), min_size=1, max_size=4), min_size=1, max_size=6
)


def searched(values: list[float]) -> list[tuple[float, str]]:
    return [(value, "search") for value in values]


LINES = Table(
    "lines", MetaData(), Column("hash", Text), Column("standing", Integer), Column("mean", Double)
)
orders = st.randoms(use_true_random=False)


@given(found=seeds_of_configurations, order=orders)
@example(found=[*map(searched, ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.7], [0.7]))], order=Random(1))
@example(found=[*map(searched, ([0.7], [0.3], [0.1 + 0.2], [0.7]))], order=Random(2))
@settings(max_examples=6)
def test_the_sweep_selects_what_the_leaderboard_shows(found, order) -> None:
    trials = [(n, seed, one) for n, of in enumerate(found) for seed, one in enumerate(of)]
    order.shuffle(trials)
    events: list[Event] = [sweep_started()]
    for number, (n, seed, (one, role)) in enumerate(trials):
        events += trial_life(number, {10: one}, configuration=f"c{n}", seed=seed, role=role)
    store = empty_store()
    apply_events(store, events)

    history = History(events)
    chose = find_choosing_trials(history.trials.values(), confirms_all=False)
    configurations = history.configurations().values()
    best = {trial.configuration for trial in chosen_by_sweep(configurations, chose=chose)[0]}

    with store.session() as session:
        for filters in (Filters(), Filters(sweep="first")):
            assert {row.configuration.hash for row in board_rows(session, filters)} == best
        every = board_rows(session, per_configuration=True)
        assert {max(every, key=dev_key).configuration.hash} == best
    store.close()


@given(found=st.lists(st.lists(scores, min_size=1, max_size=3), min_size=1, max_size=6))
@settings(max_examples=40)
def test_sql_orders_as_python_does(found) -> None:
    """Python adds from the first seed on, SQL is given what adding from the last one gives."""
    lines = [(f"c{n}", len(of), sum(of) / len(of)) for n, of in enumerate(found)]
    stored = [(f"c{n}", len(of), sum(of[::-1]) / len(of)) for n, of in enumerate(found)]
    query = select(LINES.c.hash).order_by(*best_first(LINES.c.standing, LINES.c.mean, LINES.c.hash))
    ordered = sorted(
        lines,
        key=lambda line: best_key(standing=line[1], mean=line[2], configuration=line[0]),
        reverse=True,
    )
    with create_engine("sqlite://").connect() as connection:
        LINES.create(connection)
        connection.execute(LINES.insert().values(stored))
        assert list(connection.scalars(query)) == [name for name, _, _ in ordered]


def empty_store() -> Store:
    """In memory, without the migrations, which take most of a second."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    ScoreRecord.metadata.create_all(engine)
    return Store(engine)
