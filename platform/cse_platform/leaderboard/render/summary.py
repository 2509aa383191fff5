"""A sweep in a few lines of Markdown: how far it is, and which configurations lead."""

from collections.abc import Iterator, Mapping, Sequence

from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.leaderboard.render.board import short_hash
from cse_platform.leaderboard.render.board_columns import searched_settings, short_key
from cse_platform.leaderboard.render.cells import score_cell
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.render.formats import percent
from cse_platform.render.table import Cell, Column, Table, to_table
from cse_platform.render.text import escape_markdown, to_markdown

_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}
_NOTE = "By dev mean, ± standard deviation over seeds; a single seed can be a lucky one."


def sweep_summary(
    sweep: SweepOverview, rows: Sequence[LeaderboardRow], *, links: Mapping[str, str]
) -> str:
    """A sweep as Markdown.

    The best configuration comes first. Links are the addresses of single trials, by key.
    """
    lines = "  \n".join([_state(sweep), *_best(sweep)])
    return f"{lines}\n\n{to_markdown([_table(sweep, rows, links)])}" if rows else f"{lines}\n"


def _state(sweep: SweepOverview) -> str:
    counts = [f"{sweep.counts[state]} {_STATES[state]}" for state in _STATES if sweep.counts[state]]
    trials = ", ".join([f"{sweep.ended} of {sweep.planned} trials ended", *counts])
    method, backbone = escape_markdown(sweep.method), escape_markdown(sweep.backbone)
    name, state = escape_markdown(sweep.name), sweep.state.lower()
    return f"Sweep **{name}**, {method} on {backbone}: {state}, {trials}."


def _best(sweep: SweepOverview) -> Iterator[str]:
    if (best := sweep.best) is not None:
        where = f"at step {best.step}, trial {best.number}, seed {best.seed}"
        yield f"Best on dev {sweep.dev}: {percent(best.value)} ({where})."


def _table(sweep: SweepOverview, rows: Sequence[LeaderboardRow], links: Mapping[str, str]) -> Table:
    def score(headline: str) -> Column[LeaderboardRow]:
        return Column(headline, lambda row: row.scores.get(headline), score_cell, align="right")

    def trial(row: LeaderboardRow) -> Cell:
        return Cell(short_key(row), link=links.get(row.best_trial or "", ""))

    places = {id(row): place for place, row in enumerate(rows, start=1)}
    columns: list[Column[LeaderboardRow]] = [
        Column("rank", lambda row: places[id(row)], align="right"),
        Column("configuration", short_hash),
        Column("searched", searched_settings),
        Column("seeds", lambda row: ", ".join(map(str, row.seeds))),
        Column("dev", lambda row: row.dev_score, score_cell, f"dev {sweep.dev}", "right"),
        *map(score, dict.fromkeys(row.headline for row in rows if row.headline)),
        Column("best trial", trial, lambda cell: cell),
    ]
    return to_table(columns, [rows], title="Best configurations, x 100", notes=[_NOTE])
