"""What published rows ask of our configurations is real, and the papers' own sweeps have it."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cse_methods.contract import MethodConfig
from cse_methods.data.lengths import BOUNDS
from cse_methods.published.released import names_of_released, released_encoder
from cse_methods.published.tables import published_lengths
from cse_methods.registry import get_method
from cse_platform.leaderboard.published.paper_files import read_paper_file, why_left_out
from cse_platform.leaderboard.published.papers import has_settings_of
from cse_platform.leaderboard.published.rows import PublishedRow, published_rows
from cse_platform.sweep.file import load_sweep

PAPERS = Path(__file__).parents[3] / "sweeps" / "papers"
OF_ALL_PAPERS = [PAPERS.parent / f"{name}.yaml" for name in ("baselines", "released")]
"""Systems that the papers cite, and encoders that are scored and not trained."""
REQUIRED = {
    "rankcse": {"teachers": "simcse-bert-base"},
    "diffcse": {"generator": "distilbert-base"},
    "dclr": {"complementary_model": "simcse-bert-base"},
}


@pytest.fixture(scope="module")
def rows() -> list[PublishedRow]:
    return published_rows()


def configured(row: PublishedRow, values: dict[str, Any]) -> MethodConfig:
    config = get_method(row.method).config
    given = {"backbone": row.backbone, "corpus": "wiki1m", **REQUIRED.get(row.method, {})}
    return config.model_validate(given | values)


def test_what_a_row_asks_for_is_a_configuration_of_its_method(rows: list[PublishedRow]) -> None:
    assert len(rows) == 362
    refused = set()
    for row in rows:
        asked = row.configuration or {}
        equal = {name: v for name, v in asked.items() if not isinstance(v, dict)}
        config = configured(row, equal) if asked else None
        has = {"backbone": config.backbone, **config.hyperparameters()} if config else {}
        assert {name: has[name] for name in equal} == equal, row
        assert asked.keys() <= has.keys(), row
        refused |= {(row.method, name, asked[name]["not"]) for name in asked.keys() - equal.keys()}
    assert refused == {("rankcse", "gamma", 0), ("hicl", "beta", 0)}


NOT_RUN = {"declutr", "glove-avg", "paser", "skip-thought", "use"}
"""Systems that no method of ours trains."""
NOT_RUN_ON = {("pcl", backbone) for backbone in ("bert-large", "roberta-base", "roberta-large")}
"""Systems on backbones for which their authors give no settings."""


def test_rows_without_a_counterpart_are_left_out_for_a_reason(rows: list[PublishedRow]) -> None:
    for row in rows:
        cut = row.settings.get("training_text") == "full"
        nothing = row.system in NOT_RUN or cut or (row.system, row.backbone) in NOT_RUN_ON
        assert (row.configuration is None) is nothing, row
    reasons = [(row, why_left_out(row)) for row in rows]
    systems = {row.system for row, why in reasons if why == "of systems that are not run here"}
    assert systems == NOT_RUN
    assert {(row.system, row.backbone) for row, why in reasons if "backbone" in why} == NOT_RUN_ON
    [memory] = [row for row, why in reasons if "memory" in why]
    assert (memory.table, memory.settings["batch_size"]) == ("section5.4", "1024")
    [cut_one, _] = [row for row, why in reasons if "cut" in why]
    assert cut_one.settings["training_text"] == "full"


def test_a_tables_sweep_fills_its_lines(rows: list[PublishedRow]) -> None:
    tables = {f"{row.paper}-{row.table}" for row in rows}
    paths = sorted(path for path in PAPERS.glob("*.yaml") if path.stem in tables)
    assert len(paths) == 33
    for path in paths:
        file = read_paper_file(path)
        of_paper = [
            one for one in rows if one.paper == file.paper and one.configuration is not None
        ]
        lines = [row for row in of_paper if row.table == file.table]
        setups = [one.setup for one in file.configurations]
        for setup in setups:
            assert sum(has_settings_of(line, setup) for line in lines) <= 1, (path, setup)
            assert any(has_settings_of(line, setup) for line in of_paper), (path, setup)
        trained = {(setup.method, setup.backbone) for setup in setups}
        for line in lines:
            filled = any(has_settings_of(line, setup) for setup in setups)
            assert filled or (line.method, line.backbone) not in trained, (path, line)


@pytest.mark.slow  # its sums are those of all papers in test_paper_files.py
def test_every_published_cell_is_filled_or_has_its_reason(rows: list[PublishedRow]) -> None:
    """The paper's own file fills it, with all its tables, or one of all papers."""
    expected = {
        "compcse": (301, 0), "hicl": (556, 3), "rankcse": (586, 24), "whitenedcse": (302, 8),
    }  # fmt: skip
    shared = list(map(read_paper_file, OF_ALL_PAPERS))
    for paper, counts in expected.items():
        files = [read_paper_file(PAPERS / f"{paper}.yaml"), *shared]
        cells = Counter[bool]()
        for row in (row for row in rows if row.paper == paper):
            has = set().union(*(file.columns_filled(row) for file in files))
            cells.update(column in has for column in row.scores)
            left_out = row.scores.keys() - has
            assert not left_out or "no file" not in why_left_out(row), (row, left_out)
        assert (cells[True], cells[False]) == counts, paper


def test_the_file_of_released_encoders_scores_all_that_are_known() -> None:
    stages = load_sweep(PAPERS.parent / "released.yaml").stages
    found = [released_encoder(one.method, one.backbone, one.settings({})) for one in stages]
    known = {name for one in found if one for name in names_of_released([one.trained_from])}
    assert None not in found and len({one.encoder for one in found if one}) == len(stages)
    assert {one.encoder for one in found if one} == {name for name in known if "/" in name}
    for stage, one in zip(stages, found, strict=True):
        assert one is not None and stage.dev.search == (one.selected_on or "stsb")


def test_a_row_names_another_start_than_the_papers_backbone(rows: list[PublishedRow]) -> None:
    """DCLR's large rows are filled by trials from SimCSE's large checkpoints, and by no others."""
    large = [row for row in rows if row.system == "dclr" and row.backbone.endswith("-large")]
    assert len(large) == 5
    files = read_paper_file(PAPERS.parent / "baselines.yaml").configurations
    ours = [one.setup for one in files if one.setup.method == "dclr"]
    for row in large:
        standing = [setup for setup in ours if has_settings_of(row, setup)]
        assert [setup.backbone for setup in standing] == [f"simcse-{row.backbone}"]
        assert not has_settings_of(row, standing[0]._replace(backbone=row.backbone))


def test_the_lengths_of_a_corpus_are_counted_as_the_paper_counts_them() -> None:
    """HiCL's table 2 is of a corpus and not of trials: `cse-data lengths wiki1m` counts it."""
    shares = published_lengths("wiki1m")["hicl table2"]
    assert list(shares) == list(pairwise(BOUNDS))[:-1]
    assert sum(shares.values()) == pytest.approx(1)
