"""What published rows ask of our configurations is real, and the papers' own sweeps have it."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from published_cells import PAPERS, ROWS, columns_of

from cse_methods.contract import MethodConfig
from cse_methods.registry import available_methods, get_method
from cse_platform.leaderboard.published.gaps import matches
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.sweep.reading.loader import load_sweep
from cse_platform.sweep.spec import SweepSpec

TABLES = {f"{row.paper}-{row.table}" for row in ROWS}
SWEEPS = sorted(path for path in PAPERS.glob("*.yaml") if path.stem in TABLES)
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
    assert len(SWEEPS) == 31


Tried = Callable[[Path], Iterator[tuple[SweepSpec, LeaderboardRow]]]


@pytest.fixture
def tried(our_row: Callable[..., LeaderboardRow]) -> Tried:
    """A row for every configuration that a sweep file tries, with its stage."""

    def rows(path: Path) -> Iterator[tuple[SweepSpec, LeaderboardRow]]:
        for stage in load_sweep(path).stages:
            for point in stage.space.grid_points():
                yield (
                    stage,
                    our_row(
                        stage.method,
                        stage.backbone,
                        values=stage.config(point).hyperparameters(),
                        search=stage.dev.search,
                        corpus="+".join(corpus.name for corpus in stage.corpus),
                    ),
                )

    return rows


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_tables_sweep_fills_its_lines(path: Path, tried: Tried) -> None:
    paper, table = path.stem.split("-")
    of_paper = [row for row in ROWS if row.paper == paper and row.configuration is not None]
    lines = [row for row in of_paper if row.table == table]
    ours = [row for _, row in tried(path)]
    for row in ours:
        assert sum(matches(line, row.setup) for line in lines) <= 1, row.configuration
        assert any(matches(line, row.setup) for line in of_paper), row.configuration
    trained = {(row.method, row.backbone) for row in ours}
    for line in lines:
        filled = any(matches(line, row.setup) for row in ours)
        assert filled or (line.method, line.backbone) not in trained, line


NOT_RUN = {
    *("arccse", "bert-flow", "consert", "ct", "dclr", "declutr", "diffcse", "glove-avg", "is-bert"),
    *("l2p-csr", "mocose", "paser", "pcl", "skip-thought", "use"),
}
"""Systems that no method of ours trains."""


def reason(row: PublishedRow) -> str | None:
    """Why no sweep file fills a row."""
    if row.system in NOT_RUN:
        return "a system that is not run here"
    if row.split == "train":
        return "minutes of training, which are not compared"
    if row.settings.get("training_text") == "full":
        return "a corpus that is cut, which no hyperparameter tells"
    return None


@pytest.mark.parametrize(
    ("paper", "filled", "unfilled"),
    [("compcse", 172, 128), ("hicl", 505, 10), ("rankcse", 338, 268), ("whitenedcse", 158, 152)],
)
def test_every_published_cell_is_filled_or_has_its_reason(
    paper: str, filled: int, unfilled: int, tried: Tried
) -> None:
    """The paper's own file fills it, with all its tables."""
    ours, cells = list(tried(PAPERS / f"{paper}.yaml")), Counter[str | None]()
    for row in (row for row in ROWS if row.paper == paper):
        mine = [columns_of(stage, row.split) for stage, our in ours if matches(row, our.setup)]
        has = set().union(*mine)
        for column in row.scores:
            cells["filled" if column in has else reason(row)] += 1
            assert column in has or reason(row), (row, column)
    assert (cells.pop("filled"), cells.total()) == (filled, unfilled)
