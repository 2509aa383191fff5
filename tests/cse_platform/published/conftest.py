from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cse_platform.leaderboard.records import Configuration, DevSets, Estimate, LeaderboardRow
from cse_platform.leaderboard.statistics.intervals import Interval

HEAD = "paper,table,backbone,method,settings,task,split,metric,value,std,configuration"


@pytest.fixture(scope="session")
def estimated() -> Callable[..., Estimate]:
    """Makes an estimate from its values over seeds."""

    def make(
        *values: float, interval: tuple[float, float] | None = None, of: str = "e", source: str = ""
    ) -> Estimate:
        known = Interval(*interval, "seeds") if interval else None
        mean = sum(values) / len(values)
        return Estimate(dict(enumerate(values)), mean, None, max(values), known, of, source)

    return make


@pytest.fixture(scope="session")
def our_row(estimated: Callable[..., Estimate]) -> Callable[..., LeaderboardRow]:
    """Makes a row of the leaderboard, on real data unless told otherwise."""

    def make(
        method: str = "rankcse",
        backbone: str = "bert-base",
        *,
        values: Mapping[str, Any] | None = None,
        search: str = "stsb",
        source: str = "hub",
        identity: str = "d",
        dev: tuple[float, ...] = (0.8,),
        hash: str = "ours",
        **fields: Any,
    ) -> LeaderboardRow:
        return LeaderboardRow(
            method=method, backbone=backbone, sweep="s",
            configuration=Configuration(hash, dict(values or {}), []),
            seeds=list(range(len(dev))), keys={}, dev=DevSets("stsb", search, identity, source),
            dev_score=estimated(*dev), dev_untrained=None, trials=1, gpu_hours=0.0,
            finished=datetime(2030, 1, 1, tzinfo=UTC), machines=[], tags=[], **fields,
        )  # fmt: skip

    return make


@pytest.fixture
def lab_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a lab's own file of published numbers."""

    def write(*lines: str, head: str = HEAD) -> Path:
        file = tmp_path / "lab.csv"
        file.write_text("\n".join((head, *lines)) + "\n", encoding="utf-8")
        return file

    return write
