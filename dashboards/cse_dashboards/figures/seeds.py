"""The dev curves of one configuration's seeds, put together."""

from collections.abc import Iterator, Mapping, Sequence

from cse_platform.leaderboard.query.trials.curves import DevPoint

Seeds = Mapping[int, Sequence[DevPoint]]
"""Dev curves by seed."""


def having(seeds: Seeds, *metrics: str) -> Seeds:
    """The seeds with a point that has all of these metrics."""
    return {
        seed: points
        for seed, points in seeds.items()
        if any(all(point.metrics.get(name) is not None for name in metrics) for point in points)
    }


def over_seeds(seeds: Seeds, metric: str) -> dict[int, list[float]]:
    """What the seeds have of a metric, by step, in order of steps.

    Seeds that never have it are left out, and so are steps that one of the others has no number
    at: a mean over fewer seeds would jump.
    """
    curves = [dict(_known(points, metric)) for points in having(seeds, metric).values()]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return {step: [curve[step] for curve in curves] for step in sorted(shared)}


def at_best(seeds: Seeds, metric: str) -> list[tuple[int, float]]:
    """By seed, the step of the checkpoint that was kept and what it has of a metric.

    Seeds without are left out.
    """
    kept = [[point for point in points if point.kept] for points in seeds.values()]
    return [found for points in kept for found in _known(points, metric)]


def _known(points: Sequence[DevPoint], metric: str) -> Iterator[tuple[int, float]]:
    for point in points:
        if (value := point.metrics.get(metric)) is not None:
            yield point.step, value
