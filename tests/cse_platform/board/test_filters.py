import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stored_trials import apply_events
from sweep_events import sweep_started, trial_life

from cse_platform.errors import NotFoundError
from cse_platform.leaderboard import Filters
from cse_platform.leaderboard.board import board_rows
from cse_platform.leaderboard.filters import parse_since
from cse_platform.leaderboard.ranking import sort_rows

ALL = ["hicl", "simcse", "sncse"]
FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ALL),
    ({"method": "simcse"}, ["simcse"]),
    ({"backbone": "mini"}, ALL),
    ({"backbone": "bert-base"}, []),
    ({"sweep": "hicl"}, ["hicl"]),
    ({"tag": "all"}, ALL),
    ({"tag": "of-sncse"}, ["sncse"]),
    ({"tag": "of-sncse", "sweep": "hicl"}, []),
    ({"configuration": "bb"}, ["simcse"]),
    ({"configuration": "b%"}, []),
    ({"identity": "dev-1"}, ALL),
    ({"identity": "cls-real"}, ALL),
    ({"identity": "avg"}, []),
    ({"hardware": "gpu NODE-1"}, ["simcse"]),
    ({"hardware": "node-2"}, ["sncse"]),
    ({"hardware": "A100"}, []),
]


def test_filters(board, reader) -> None:
    with board.session() as session:
        for filters, methods in FILTERED:
            for per_configuration in (False, True):
                rows = board_rows(session, Filters(**filters), per_configuration=per_configuration)
                assert [row.method for row in rows] == methods, filters


def test_a_name_in_the_place_of_filters_is_refused(reader) -> None:
    for ask in (reader.rows, reader.trials, reader.curves, reader.check):
        with pytest.raises(TypeError, match=r"such as Filters\(sweep=.*got 'first'"):
            ask("first")
    with pytest.raises(TypeError, match="got 'mini'"):
        reader.row("simcse", "mini")


def test_an_encoder_that_was_released_counts_as_of_its_backbone(board) -> None:
    values = {"pooler": "cls", "whitening": False}
    for number, (method, backbone) in enumerate(
        [
            ("untrained", "diffcse-bert-base"),
            ("untrained", "qiyuw/pcl-bert-base-uncased@v2"),
            ("untrained", "simcse-bert-large"),
            ("rankcse", "simcse-bert-base"),  # trained further: no released encoder any more
            ("simcse", "bert-base"),
        ]
    ):
        told = {"sweep": f"s{number}", "method": method, "backbone": backbone}
        life = trial_life(
            0, {0: 0.5, 9: 0.6}, **told, configuration=f"{number}" * 64, values=values,
            trial=f"{number}" * 64,
        )  # fmt: skip
        events = [sweep_started(**told), *life]
        apply_events(board, events, journal=backbone)
    with board.session() as session:
        rows = board_rows(session, Filters(backbone="bert-base"))
        assert {(row.shown_method, row.shown_backbone) for row in rows} == {
            *((f"{system} (released)", "bert-base") for system in ("diffcse", "pcl")),
            ("simcse", "bert-base"),
        }
        assert [row.method for row in board_rows(session, Filters(backbone="bert-base,mini"))]
        [further] = board_rows(session, Filters(backbone="simcse-bert-base"))
        assert (further.method, further.released) == ("rankcse", None)


def test_since_then_the_best_of_each_method_stands_though_an_older_one_is_better(
    board, reader
) -> None:
    oldest, *_, newest = sorted(row.finished for row in reader.rows())
    later = reader.rows(Filters(since=oldest + timedelta(hours=12)))
    assert [row.method for row in later] == ["sncse", "simcse"]
    new = {"sweep": "hicl", "method": "hicl", "configuration": "d" * 64, "trial": "d" * 64}
    *life, end = trial_life(9, {9: 0.1}, **new)
    later = end.model_copy(update={"time": newest + timedelta(days=1)})
    apply_events(board, [*life, later])
    assert sorted(row.method for row in reader.rows()) == ALL
    [row] = reader.rows(Filters(since=newest + timedelta(hours=1)))
    assert (row.method, row.configuration.hash) == ("hicl", "d" * 64)


def test_gpu_hours_are_wall_hours_by_the_share_of_a_gpu(reader) -> None:
    for filters in (Filters(), Filters(tag="all")):
        assert [row.gpu_hours for row in reader.rows(filters)] == [1.5, 0.5, 1.0]


def test_a_machine_keeps_only_the_seeds_it_ran(board, reader, two_methods) -> None:
    [start, *_, finish] = [e for e in two_methods if getattr(e, "trial", "")[:4] == "0b01"][:-1]
    elsewhere = {"trial": "0b09" + "0" * 60, "seed": 9, "number": 9}
    end = {"trial": elsewhere["trial"], "best_value": 0.9}
    end["provenance"] = {"host": "laptop", "cpu": "M4"}
    more = [start.model_copy(update=elsewhere), finish.model_copy(update=end)]
    apply_events(board, more)
    [whole] = reader.rows(Filters(method="simcse"))
    [part] = reader.rows(Filters(method="simcse", hardware="m4"))
    assert (whole.seeds, part.seeds, part.machines) == ([0, 1, 9], [9], ["laptop · M4"])
    assert (whole.trials, part.trials) == (3, 1)
    assert part.dev_score.mean == 0.9
    assert part.scores == {}


def test_sorting(reader) -> None:
    rows = reader.rows()
    by_dev = ("dev", "method", "n", "gap", "mr")  # none has a gap or that score: by dev
    assert {c: [row.method for row in sort_rows(rows, c)] for c in by_dev} == dict.fromkeys(
        by_dev, ALL
    )
    assert [row.method for row in sort_rows(rows, "finished")] == ["sncse", "simcse", "hicl"]
    for column in ("avg_sts", "sickr"):
        values = [row.scores[column].mean for row in sort_rows(rows, column)]
        assert values == sorted(values, reverse=True)
        assert sort_rows(rows, column)[-1].method == "simcse"
    with pytest.raises(
        NotFoundError, match=r"by; expected method, .*sts12.*; did you mean 'finished'\?$"
    ):
        reader.rows(sort="finishd")


def test_the_catalogue_says_what_there_is_and_not_what_was(reader, board, two_methods) -> None:
    found = reader.catalogue()
    assert found["methods"] == ["hicl", "simcse", "sncse"]
    assert found["tags"] == ["all", "of-hicl", "of-simcse", "of-sncse"]
    assert found["hardware"] == [f"{part}node-{n}" for part in ("GPU ", "") for n in range(3)]
    again = two_methods[0].model_copy(update={"spec": {"tags": ["new"]}})
    apply_events(board, [again])
    with pytest.raises(NotFoundError, match="there is no tag 'of-hicl'"):
        reader.rows(Filters(tag="of-hicl"))
    assert [row.tags for row in reader.rows(Filters(tag="new"))] == [["new"]]


def test_a_time_is_utc_unless_it_has_an_offset(monkeypatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
        for text in (
            "2026-11-29 12:00:00 UTC", "2026-11-29 12:00:00", "2026-11-29 12:00",
            "2026-11-29T12:00", "2026-11-29T12:00Z", "2026-11-29T12:00:00.000Z",
            "2026-11-29T17:30+05:30", "2026-11-29T07:00:00-05:00", " 2026-11-29T12 ",
        ):  # fmt: skip
            assert parse_since(text) == noon, text
        assert parse_since("2026-11-29") == noon.replace(hour=0)
        assert parse_since("0001-01-01").year == 1 and parse_since("9999-12-31").year == 9999
        for text in (
            "", "yesterday", "2026-11-31", "2026-11-29T25:00", "0001-01-01T00:00+05:00",
            "9999-12-31T23:00-05:00", "2026-11-29T12:00+99:00", "1e400", "10000-01-01", "\0",
        ):  # fmt: skip
            with pytest.raises(ValueError, match="expected a date or a time"):
                parse_since(text)
    finally:
        monkeypatch.undo()
        time.tzset()
