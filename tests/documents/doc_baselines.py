"""The generated tables of the untrained `mini` on real data, in what-helps.md and clean-sets.md.

`recorded/` holds the journal of the first stage of sweeps/mini-rankcse.yaml on `wiki_sentences`,
with the cosines of every test pair. `make docs` writes the tables anew from it.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from doc_blocks import ROOT, fill_generated
from doc_world import fill_store

from cse_methods.tasks import STS_TASKS
from cse_platform import open_leaderboard
from cse_platform.leaderboard.records import Estimate, LeaderboardRow

SWEEP = "mini-rankcse-baselines"
WHAT_HELPS, CLEAN_SETS = (ROOT / "docs" / name for name in ("what-helps.md", "clean-sets.md"))
_NAMES = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R")
_BY = ("whitening", "pooler")


def filled_pages() -> dict[Path, str]:
    """The text of each page with its table written anew."""
    with tempfile.TemporaryDirectory() as runs:
        fill_store(Path(runs), SWEEP)
        with open_leaderboard(runs) as board:
            rows = board.rows(per_configuration=True)
            clean = board.rows(tasks="clean", per_configuration=True, ranked=False)
    tables = {WHAT_HELPS: _untrained(rows), CLEAN_SETS: _all_and_clean(clean)}
    return {
        page: fill_generated(page.read_text(encoding="utf-8"), {"untrained": table}, page=page)
        for page, table in tables.items()
    }


def _untrained(rows: Sequence[LeaderboardRow]) -> str:
    lines = [_head("untrained `mini`", "STS-B dev", *_NAMES, "average of the seven")]
    for row in sorted(rows, key=lambda row: [row.configuration.values[name] for name in _BY]):
        read = f"`{row.configuration.values['pooler']}`"
        name = f"{read}, whitened" if row.configuration.values["whitening"] else read
        scores = [row.dev_score, *(row.scores[task] for task in STS_TASKS)]
        average = row.scores["avg_sts"]
        assert average.interval is not None
        low, high = 100 * average.interval.low, 100 * average.interval.high
        found = [f"{100 * score.mean:.1f}" for score in [*scores, average]]
        lines.append(_line(name, *found[:-1], f"{found[-1]} [{low:.1f}, {high:.1f}]"))
    return "".join(lines)


def _all_and_clean(rows: Sequence[LeaderboardRow]) -> str:
    """Both protocols for the encoder as shipped: the mean of its last layer, not whitened."""
    [row] = (
        row
        for row in rows
        if (row.configuration.values["whitening"], row.configuration.values["pooler"])
        == (False, "avg")
    )

    def line(name: str, ending: str) -> str:
        columns = [f"{task}{ending}" for task in (*STS_TASKS, "avg_sts")]
        return _line(name, *(_hundredths(row.scores[column]) for column in columns))

    return "".join(
        [
            _head("", *_NAMES, "Avg."),
            line("all rows", ""),
            line("clean rows, chosen on STS-B dev", "_clean"),
        ]
    )


def _hundredths(score: Estimate) -> str:
    return f"{100 * score.mean:.2f}"


def _head(*names: str) -> str:
    return _line(*names) + "|---|" + "---:|" * (len(names) - 1) + "\n"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"
