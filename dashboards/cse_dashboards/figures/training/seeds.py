"""Combines the dev curves of a configuration's seeds."""

from collections.abc import Iterator, Mapping, Sequence

from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import DevPoint, LeaderboardRow

SeedCurves = Mapping[int, Sequence[DevPoint]]
"""Dev curves by seed."""


def curves_of(
    reader: Leaderboard, labelled: Mapping[str, LeaderboardRow], *metrics: str
) -> tuple[dict[str, SeedCurves], str]:
    """Read the dev curves of rows, for seeds with these metrics. Also returns a caption note."""
    whole = {label: reader.dev_curves(row) for label, row in labelled.items()}
    curves = {
        label: kept
        for label, seeds in whole.items()
        if (kept := seeds_having(seeds, *metrics))
        and all(over_seeds(kept, name) for name in metrics)
    }
    absent = sum(len(whole[label]) - len(seeds) for label, seeds in curves.items())
    what = metrics[0] if len(metrics) == 1 else "both"
    return curves, f" Seeds without {what}, and left out: {absent}." if absent else ""


def seeds_having(seeds: SeedCurves, *metrics: str) -> SeedCurves:
    """Return the seeds with at least one point that has all of these metrics."""
    return {
        seed: points
        for seed, points in seeds.items()
        if any(all(point.metrics.get(name) is not None for name in metrics) for point in points)
    }


def over_seeds(seeds: SeedCurves, metric: str) -> dict[int, list[float]]:
    """Return the values of a metric over the seeds, by step, in order of steps.

    Seeds that never have the metric are left out. Steps at which one of the other seeds has no
    value are left out too, because a mean over fewer seeds would jump.
    """
    curves = [dict(_list_values(points, metric)) for points in seeds_having(seeds, metric).values()]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return {step: [curve[step] for curve in curves] for step in sorted(shared)}


def at_kept(seeds: SeedCurves, metric: str) -> list[tuple[int, float]]:
    """Return for each seed the step of the kept checkpoint and the metric there.

    Seeds without the metric at that step are left out.
    """
    kept = [[point for point in points if point.kept] for points in seeds.values()]
    return [found for points in kept for found in _list_values(points, metric)]


def _list_values(points: Sequence[DevPoint], metric: str) -> Iterator[tuple[int, float]]:
    for point in points:
        if (value := point.metrics.get(metric)) is not None:
            yield point.step, value
