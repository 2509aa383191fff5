"""What there is to say about a sweep in a few lines of Markdown: how it is, and who leads."""

from collections.abc import Iterator, Mapping, Sequence

from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.leaderboard.render.board import HASH_SHOWN
from cse_platform.leaderboard.render.fields import searched
from cse_platform.leaderboard.render.grid import Cell, Column, Grid, Row
from cse_platform.leaderboard.render.markdown import escaped, written
from cse_platform.leaderboard.render.numbers import percent, score
from cse_platform.leaderboard.row import LeaderboardRow

STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}


def summary(
    sweep: SweepOverview, rows: Sequence[LeaderboardRow], *, links: Mapping[str, str]
) -> str:
    """A sweep as Markdown.

    Args:
        sweep: how far it is.
        rows: its best configurations, in the order in which they shall stand.
        links: where single trials are shown, by key.
    """
    lines = "  \n".join([_state(sweep), *_best(sweep)])
    return f"{lines}\n\n{written([_ranking(sweep, rows, links)])}" if rows else f"{lines}\n"


def _state(sweep: SweepOverview) -> str:
    counts = [f"{sweep.counts[state]} {STATES[state]}" for state in STATES if sweep.counts[state]]
    trials = ", ".join([f"{sweep.ended} of {sweep.planned} trials ended", *counts])
    method, backbone = escaped(sweep.method), escaped(sweep.backbone)
    name, state = escaped(sweep.name), sweep.state.lower()
    return f"Sweep **{name}**, {method} on {backbone}: {state}, {trials}."


def _best(sweep: SweepOverview) -> Iterator[str]:
    if (best := sweep.best) is not None:
        where = f"at step {best.step}, trial {best.number}, seed {best.seed}"
        yield f"Best on dev {sweep.dev}: {percent(best.value)} ({where})."


def _ranking(
    sweep: SweepOverview, rows: Sequence[LeaderboardRow], links: Mapping[str, str]
) -> Grid:
    headlines = list(dict.fromkeys(row.headline for row in rows if row.headline))
    columns = (
        Column("rank", "right"),
        Column("configuration"),
        Column("searched"),
        Column("seeds"),
        Column(f"dev {sweep.dev}", "right"),
        *(Column(headline.replace("_", " "), "right") for headline in headlines),
        Column("best trial"),
    )
    lines = tuple(
        Row(
            (
                Cell(str(place)),
                Cell(row.configuration.hash[:HASH_SHOWN]),
                Cell(searched(row)),
                Cell(", ".join(map(str, row.seeds))),
                score(row.dev_score),
                *(score(row.scores.get(headline)) for headline in headlines),
                _trial(row, links),
            )
        )
        for place, row in enumerate(rows, start=1)
    )
    note = "By dev mean, ± standard deviation over seeds; a single seed can be a lucky one."
    return Grid("Best configurations, x 100", columns, lines, notes=(note,))


def _trial(row: LeaderboardRow, links: Mapping[str, str]) -> Cell:
    key = row.best_trial or ""
    return Cell(key[:HASH_SHOWN], link=links.get(key, ""))
