import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from board_rows import our_row
from paper_trials import TABLE5, planned_life

from cse_methods.data.lengths import BOUNDS
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.published.released import names_of_released, released_encoder
from cse_methods.published.tables import published_lengths
from cse_methods.registry import get_method
from cse_platform.errors import SweepFileError
from cse_platform.leaderboard import Leaderboard
from cse_platform.leaderboard.papers import (
    PaperFile,
    PaperProgress,
    explain_left_out,
    paper_progress,
    read_paper_file,
    read_paper_files,
)
from cse_platform.leaderboard.published.matching import has_settings_of
from cse_platform.leaderboard.published.rows import PublishedRow, published_rows
from cse_platform.sweep.file import load_sweep

PAPERS = Path(__file__).parents[3] / "sweeps" / "papers"
REQUIRED = {
    "rankcse": {"teachers": "simcse-bert-base"},
    "diffcse": {"generator": "distilbert-base"},
    "dclr": {"complementary_model": "simcse-bert-base"},
}


@pytest.fixture(scope="module")
def rows() -> list[PublishedRow]:
    """The rows of the four papers, which have sweep files."""
    return [row for row in published_rows() if row.year is None]


def test_what_a_row_asks_for_is_a_configuration_of_its_method(rows: list[PublishedRow]) -> None:
    assert len(rows) == 362
    refused = set()
    for row in rows:
        asked = row.configuration or {}
        equal = {name: v for name, v in asked.items() if not isinstance(v, dict)}
        given = {"backbone": row.backbone, "corpus": "wiki1m", **REQUIRED.get(row.method, {})}
        config = get_method(row.method).config.model_validate(given | equal) if asked else None
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
    reasons = [(row, explain_left_out(row)) for row in rows]
    systems = {row.system for row, why in reasons if why == "system not run"}
    assert systems == NOT_RUN
    assert {(row.system, row.backbone) for row, why in reasons if "backbone" in why} == NOT_RUN_ON
    [memory] = [row for row, why in reasons if "memory" in why]
    assert (memory.table, memory.settings["batch_size"]) == ("section5.4", "1024")
    [cut_one, _] = [row for row, why in reasons if why == "no hyperparameter"]
    assert cut_one.settings["training_text"] == "full"


def test_a_tables_sweep_fills_its_lines(rows: list[PublishedRow]) -> None:
    tables = {f"{row.paper}-{row.table}" for row in rows}
    paths = sorted(path for path in PAPERS.glob("*.yaml") if path.stem in tables)
    assert len(paths) == 33
    for path in paths:
        file = read_paper_file(path)
        of_paper = [r for r in rows if r.paper == file.paper and r.configuration is not None]
        lines = [row for row in of_paper if row.table == file.table]
        setups = [one.setup for one in file.configurations]
        for setup in setups:
            assert sum(has_settings_of(line, setup) for line in lines) <= 1, (path, setup)
            assert any(has_settings_of(line, setup) for line in of_paper), (path, setup)
        trained = {(setup.method, setup.backbone) for setup in setups}
        for line in lines:
            filled = any(has_settings_of(line, setup) for setup in setups)
            assert filled or (line.method, line.backbone) not in trained, (path, line)


def test_the_file_of_released_encoders_scores_all_that_are_known() -> None:
    stages = load_sweep(PAPERS.parent / "released.yaml").stages
    found = [released_encoder(one.method, one.backbone, one.settings({})) for one in stages]
    known = {name for one in found if one for name in names_of_released([one.trained_from])}
    assert None not in found and len({one.encoder for one in found if one}) == len(stages)
    assert {one.encoder for one in found if one} == {name for name in known if "/" in name}
    for stage, one in zip(stages, found, strict=True):
        assert one is not None and stage.dev.search == (one.selected_on or "stsb")
        revision = resolve_backbone(stage.backbone).revision or "not known"
        assert one.revision == revision and (revision == "not known" or len(revision) == 40)


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


def of(listed: list[PaperProgress], paper: str, table: str) -> PaperProgress:
    [found] = [one for one in listed if (one.paper, one.table) == (paper, table)]
    return found


def counts(one: PaperProgress) -> tuple[int, int, int]:
    return one.rows_filled, one.cells_filled, one.trials_done


@pytest.fixture(scope="module")
def files() -> list[PaperFile]:
    return list(read_paper_files())


@pytest.fixture(scope="module")
def untouched(files: list[PaperFile]) -> list[PaperProgress]:
    return paper_progress(published_rows(), files, [])


@pytest.mark.slow
def test_without_trials_all_is_left(untouched: list[PaperProgress]) -> None:
    assert all(counts(one) == (0, 0, 0) for one in untouched)
    table5 = of(untouched, "whitenedcse", "table5")
    assert (table5.rows, table5.cells, table5.trials) == (4, 4, 4)
    assert table5.file is not None and Path(table5.file).name == "whitenedcse-table5.yaml"
    cells = {
        one.paper: (one.cells, sum(one.left_out.values()))
        for one in untouched
        if one.table == "all" and one.cells
    }
    assert cells == {
        "compcse": (301, 0), "hicl": (556, 3), "rankcse": (586, 24), "whitenedcse": (302, 8),
    }  # fmt: skip
    whole = [one for one in untouched if one.table == "all"]
    assert not any(why == "not tried" for one in whole for why in one.left_out)
    tables = [f"table{number}" for number in (2, 3, 4, 5, 6, 9, 10, 11, 13)]
    listed = [one.table for one in untouched if one.paper == "rankcse"]
    assert listed == [*tables, "figure3", "teachers", "all"]
    for paper, table in (("compcse", "figure2"), ("rankcse", "table9")):  # without numbers
        one = of(untouched, paper, table)
        assert one.file and one.trials and not one.is_printed
        assert (one.rows, one.cells, one.left_out) == (0, 0, {})
    table2 = of(untouched, "whitenedcse", "table2")
    assert table2.left_out == {"system not run": 8}
    claim = of(untouched, "hicl", "section5.4")
    assert claim.left_out == {"out of memory": 1}


def test_a_paper_counts_what_its_tables_share_once(untouched, files) -> None:
    whole = of(untouched, "rankcse", "all")
    tables = [one for one in untouched if one.paper == "rankcse" and one is not whole]
    [file] = [one for one in files if one.path.stem == "rankcse"]
    new, _ = re.findall(r"(\d+) of (\d+) trials are new", file.path.read_text())[0]
    assert whole.trials == int(new) < sum(one.trials for one in tables)
    assert whole.cells == sum(one.cells for one in tables)


def test_released_encoders_fill_rows_of_all_papers(untouched, files) -> None:
    baselines, released = untouched[-2:]
    assert (baselines.paper, baselines.trials) == ("baselines", 28)
    assert (released.paper, released.table, released.cells) == ("released", "all", 0)
    assert released.trials == 38 and released.file == "sweeps/released.yaml"
    assert files[-1].path.stem == "released"
    alone = paper_progress(published_rows(), files[:-1], [])
    more = {
        paper: of(untouched, paper, "all").cells - of(alone, paper, "all").cells
        for paper in ("compcse", "hicl", "rankcse", "whitenedcse")
    }
    assert more == {"compcse": 24, "hicl": 0, "rankcse": 64, "whitenedcse": 24}


def test_counts_of_a_store_are_of_the_files_seeds_and_data(filled, paper_events) -> None:
    listed = Leaderboard(filled(paper_events)).papers()
    table5 = of(listed, "whitenedcse", "table5")
    # Three of four configurations have their first seed; further seeds are none of the file's.
    assert counts(table5) == (3, 3, 3)
    # Both +sgw and the whole method: two of five trials.
    assert counts(of(listed, "whitenedcse", "table6")) == (2, 2, 2)
    # One average of eight columns, of the one row that is of three positives.
    assert counts(of(listed, "whitenedcse", "table1")) == (1, 1, 1)
    assert counts(of(listed, "whitenedcse", "table2")) == (0, 0, 1)
    assert all(counts(one) == (0, 0, 0) for one in listed if one.paper != "whitenedcse")
    one = read_paper_file(TABLE5).configurations[0]
    other = Leaderboard(filled([paper_events[0], *planned_life(one, 0, 7, 0.78)]))
    assert counts(of(other.papers(), "whitenedcse", "table5")) == (1, 1, 0)
    events = [paper_events[0], *planned_life(one, 0, 42, 0.78, source="builtin")]
    small = Leaderboard(filled(events))
    assert counts(of(small.papers(), "whitenedcse", "table5")) == (0, 0, 0)


def test_values_are_as_the_store_has_them_and_a_cut_corpus_is_told_by_its_sweep(files) -> None:
    for file in files:
        for one in file.configurations:
            assert json.loads(json.dumps(one.setup.values)) == one.setup.values
    [file] = [one for one in files if one.path.stem == "hicl-table6"]
    vanilla, full = (
        next(one for one in file.configurations if one.stage.sweep == f"hicl-table6-simcse-{cut}")
        for cut in ("vanilla", "full")
    )
    assert vanilla.setup == full.setup

    def done(sweep: str) -> int:
        asked = {"values": full.setup.values, "corpus": full.setup.corpus, "search": "sickr"}
        row = replace(our_row("simcse", full.setup.backbone, **asked), sweep=sweep, keys={42: "t"})
        return of(paper_progress(published_rows(), [file], [row]), "hicl", "table6").trials_done

    assert done("hicl-table6-simcse-vanilla") == 1
    assert done("hicl-table6-simcse-full") == 2  # a store cannot tell the cut one from the other


def test_shipped_sweeps_are_known_by_name_wherever_one_stands(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_paper_files()
    assert load_sweep(Path("papers/whitenedcse-table5")).path == TABLE5
    Path("quickstart").write_text("sweep: own")
    with pytest.raises(SweepFileError, match="quickstart is not a sweep"):
        load_sweep(Path("quickstart"))


def test_a_file_is_read_anew_when_it_changes(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "sweeps" / "papers"
    folder.mkdir(parents=True)
    copy = folder / TABLE5.name
    copy.write_text(TABLE5.read_text())
    monkeypatch.chdir(tmp_path)
    [file] = read_paper_files()
    assert (file.paper, file.table) == ("whitenedcse", "table5")
    assert len(file.trials) == 4
    copy.write_text(copy.read_text().replace("positives: [2, 3, 4, 5]", "positives: [2, 3]"))
    [file] = read_paper_files()
    assert len(file.trials) == 2
