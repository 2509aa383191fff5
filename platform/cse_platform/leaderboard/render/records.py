"""What programs get as JSON: fractions, and everything that is known."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from cse_platform.leaderboard.published.paper_tables import PaperTable
from cse_platform.leaderboard.published.row import PublishedRow
from cse_platform.leaderboard.render.board import Board
from cse_platform.leaderboard.row import Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.results import Interval

Record = dict[str, Any]


def board_records(board: Board) -> list[Record]:
    """An object a row: ours in their order with every column they have, then published ones."""
    return [*map(_ours, board.rows), *map(_published, board.published)]


def paper_record(table: PaperTable) -> Record:
    """A paper's table; minutes stay minutes."""
    lines = [
        {
            "backbone": line.backbone,
            "method": line.method,
            "label": line.label,
            "published": line.published,
            "published_std": line.published_std,
            "configuration": line.configuration,
            "n": line.n,
            "ours": {column: estimate.mean for column, estimate in line.ours.items()},
            **_estimates(line.ours, prefix="ours"),
        }
        for line in table.lines
    ]
    return asdict(table) | {"lines": lines}


def _ours(row: LeaderboardRow) -> Record:
    dev = row.dev_score
    return {
        "published": False,
        "method": row.method,
        "backbone": row.backbone,
        "sweep": row.sweep,
        "configuration": asdict(row.configuration),
        "corpus": row.corpus,
        "seeds": row.seeds,
        "n": row.n,
        "keys": row.keys,
        "dev": asdict(row.dev),
        "dev_mean": dev.mean,
        "dev_std": dev.std,
        "dev_interval": _bounds(dev.interval),
        "dev_best": dev.best,
        "dev_untrained": row.dev_untrained,
        "trials": row.trials,
        "headline": row.headline,
        "rank": asdict(row.rank) if row.rank else None,
        "gap": asdict(row.gap) if row.gap else None,
        "test": {column: estimate.mean for column, estimate in row.scores.items()},
        **_estimates(row.scores, prefix="test"),
        "evaluation": {column: estimate.identity for column, estimate in row.scores.items()},
        "test_opened": _moment(row.test_opened),
        "gpu_hours": row.gpu_hours,
        "finished": _moment(row.finished),
        "machines": row.machines,
        "tags": row.tags,
    }


def _published(row: PublishedRow) -> Record:
    return {
        "published": True,
        "method": row.method,
        "backbone": row.backbone,
        "system": row.system,
        "sources": row.sources,
        "settings": row.settings,
        "split": row.split,
        "scores": row.scores,
        "scores_std": row.std,
        "unstated": row.unstated,
    }


def _estimates(scores: Mapping[str, Estimate], *, prefix: str) -> Record:
    """What is known of each score beside its mean, by column."""
    parts: dict[str, Callable[[Estimate], Any]] = {
        "std": lambda one: one.std,
        "interval": lambda one: _bounds(one.interval),
        "best": lambda one: one.best,
        "seeds": lambda one: one.n,
        "source": lambda one: one.source,
        "values": lambda one: one.values,
    }
    return {
        f"{prefix}_{name}": {column: part(estimate) for column, estimate in scores.items()}
        for name, part in parts.items()
    }


def _bounds(interval: Interval | None) -> tuple[float, float, str] | None:
    return (interval.low, interval.high, interval.over) if interval else None


def _moment(when: datetime | None) -> str | None:
    return when.isoformat() if when else None
