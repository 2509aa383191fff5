"""Every file of `sweeps/papers/` by `--smoke`: each line and column that it promises gets a number.

Whole papers are run, and files that are in none of them: Ray starts once a paper, and trials that
tables share are run once.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from processes import run_command

from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.papers import plan_configurations
from cse_platform.leaderboard.published.matching import has_settings_of
from cse_platform.leaderboard.published.rows import published_rows
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.references import find_best_references, find_stage_references
from cse_platform.sweep.rehearsal import Rehearsal, rehearse
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import GPU_MEMORY, TRAIN_MINUTES

PAPERS = Path(__file__).parents[2] / "sweeps" / "papers"
LONGEST = 3600
"""Seconds; on two calm cores the longest paper takes a few minutes."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LONGEST)]
WHOLE = ("rankcse", "whitenedcse", "compcse", "hicl")
"""Files that hold all stages of the others."""
FIGURES = {"compcse-figure2", "compcse-figure3", "hicl-figure2", "rankcse-figure3"}


@pytest.mark.parametrize("name", WHOLE)
def test_a_paper_is_rehearsed(name: str, tmp_path: Path) -> None:
    path = PAPERS / f"{name}.yaml"
    words = (str(path), "--smoke", "--runs", str(tmp_path))
    ended = run_command("cse-sweep", *words, seconds=LONGEST)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr
    folder = tmp_path / "smoke" / path.stem
    with open_leaderboard(f"sqlite:///{folder / 'leaderboard.db'}") as board:
        lines = sum(_check_lines(board, one) for one in rehearse(load_sweep(path).stages, folder))
    assert lines > 0
    _check_figures(path, folder)


def _check_lines(board: Leaderboard, rehearsal: Rehearsal) -> int:
    """Look at what stands in for each point of a paper's line; how many there are."""
    original, spec = rehearsal.original, rehearsal.spec
    rows = board.rows(Filters(sweep=spec.sweep), per_configuration=True, ranked=False)
    scored = {name for row in rows for name, of in row.scores.items() if math.isfinite(of.mean)}
    found = 0
    for point, dev, test, costs in _promised(original):
        there = spec.space.select_active(rehearsal.replace_point(point))
        values = spec.config(there).hyperparameters()
        found_later = find_stage_references(spec.fixed).keys() | {
            name for name, value in spec.fixed.items() if any(find_best_references(value))
        }
        told = values.keys() - found_later
        fitting = [  # one a reading, and one a value that an earlier stage has found
            row for row in rows if all(row.configuration.values.get(n) == values[n] for n in told)
        ]
        asked = f"{spec.sweep} {there}"
        assert fitting, asked
        for row in fitting:
            assert math.isfinite(row.dev_score.mean), asked
            assert row.wall_seconds, asked
            assert costs <= row.costs.keys(), asked
        if dev:
            assert {row.dev.search for row in fitting} == dev, asked
        lacking = test - scored  # another may be better on dev, and stand in the line
        assert all(column.endswith(("_kcc", "_ndcg")) for column in lacking), (asked, lacking)
        found += 1
    return found


def _promised(stage: SweepSpec) -> Iterator[tuple[Mapping[str, Any], set[str], set[str], set[str]]]:
    """The points of a stage that stand in a paper's line, with its dev, test and cost columns.

    A rehearsal ends after a few steps, so it cannot have the minutes of a whole training, nor the
    memory of a GPU where there is none.
    """
    published = published_rows()
    for planned, point in zip(plan_configurations(stage), stage.grid_points(), strict=True):
        lines = [row for row in published if has_settings_of(row, planned.setup)]
        dev, test, costs = (
            {column for row in lines if row.split == split for column in row.scores}
            & planned.columns(split)
            for split in ("dev", "test", "train")
        )
        if dev or test or costs:
            yield point, dev, test, costs - {TRAIN_MINUTES, GPU_MEMORY}


def _check_figures(path: Path, folder: Path) -> None:
    """Draw the figures of a stage of each figure of the paper."""
    for figure in sorted(one for one in FIGURES if one.startswith(f"{path.stem}-")):
        sweep, drawn = load_sweep(PAPERS / f"{figure}.yaml").stages[0].sweep, folder / figure
        words = ("export", sweep, str(drawn), "--runs", str(folder))
        ended = run_command("cse-dashboard", *words, seconds=LONGEST)
        assert ended.returncode == 0, ended.stderr
        assert (drawn / "report.html").stat().st_size > 0
        assert len(list((drawn / "figures").glob("*.csv"))) >= 3
