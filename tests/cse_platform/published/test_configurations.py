"""What published rows ask of our configurations is real, and the papers' own sweeps have it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cse_methods.contract import MethodConfig
from cse_methods.registry import available_methods, get_method
from cse_platform.leaderboard.published.gaps import matches
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.published.rows import published_rows
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.sweep.reading.loader import load_sweep

ROWS = published_rows()
TABLES = {f"{row.paper}-{row.table}" for row in ROWS}
SWEEPS = sorted(
    path
    for path in (Path(__file__).parents[3] / "sweeps" / "papers").glob("*.yaml")
    if path.stem in TABLES
)
REQUIRED = {"rankcse": {"teachers": "simcse-bert-base"}}


def configured(row: PublishedRow, values: dict[str, Any]) -> MethodConfig:
    config = get_method(row.method).config
    given = {"backbone": row.backbone, "corpus": "wiki1m", **REQUIRED.get(row.method, {})}
    return config.model_validate(given | values)


def test_what_a_row_asks_for_is_a_configuration_of_its_method() -> None:
    assert len(ROWS) == 359
    for row in ROWS:
        asked = row.configuration or {}
        equal = {name: v for name, v in asked.items() if not isinstance(v, dict)}
        has = configured(row, equal).hyperparameters() if asked else {}
        assert {name: has[name] for name in equal} == equal, row
        assert asked.keys() <= has.keys(), row


def test_what_a_row_does_not_want_is_a_value_too() -> None:
    refused = {
        (row.method, name, value["not"])
        for row in ROWS
        for name, value in (row.configuration or {}).items()
        if isinstance(value, dict)
    }
    assert refused == {("rankcse", "gamma", 0), ("hicl", "beta", 0)}


def test_rows_without_a_counterpart_are_meant() -> None:
    ours = set(available_methods())
    for row in ROWS:
        cut = row.settings.get("training_text") == "full"
        nothing = row.method not in ours or row.split == "train" or cut
        assert (row.configuration is None) is nothing, row


def test_there_are_sweeps_of_tables() -> None:
    assert len(SWEEPS) == 20


@pytest.fixture
def tried(our_row: Callable[..., LeaderboardRow]) -> Callable[[Path], Iterator[LeaderboardRow]]:
    """A row for every configuration that a sweep file tries."""

    def rows(path: Path) -> Iterator[LeaderboardRow]:
        for stage in load_sweep(path).stages:
            for point in stage.space.grid_points():
                yield our_row(
                    stage.method,
                    stage.backbone,
                    values=stage.config(point).hyperparameters(),
                    search=stage.dev.search,
                    corpus="+".join(corpus.name for corpus in stage.corpus),
                )

    return rows


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_tables_sweep_fills_its_lines(
    path: Path, tried: Callable[[Path], Iterator[LeaderboardRow]]
) -> None:
    lines = [
        row
        for row in ROWS
        if f"{row.paper}-{row.table}" == path.stem and row.configuration is not None
    ]
    ours = list(tried(path))
    stands = [[matches(line, one.setup) for line in lines] for one in ours]
    for one, standing in zip(ours, stands, strict=True):
        assert sum(standing) == 1, one.configuration
    trained = {(one.method, one.backbone) for one in ours}
    for line, *standing in zip(lines, *stands, strict=True):
        assert any(standing) or (line.method, line.backbone) not in trained, line
