"""The dev curves of one configuration's seeds, put together."""

from collections.abc import Iterator, Mapping, Sequence

from cse_platform.leaderboard.trials import DevPoint

Seeds = Mapping[int, Sequence[DevPoint]]
"""Dev curves by seed."""


def over_seeds(seeds: Seeds, metric: str) -> dict[int, list[float]]:
    """What the seeds have of a metric, by step, in order of steps.

    Steps are left out that a seed has no number at: a mean over fewer seeds would jump.
    """
    curves = [dict(_known(points, metric)) for points in seeds.values()]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return {step: [curve[step] for curve in curves] for step in sorted(shared)}


def at_best(seeds: Seeds, metric: str) -> list[tuple[int, float]]:
    """By seed, the step of its best checkpoint on dev and what it has of a metric there.

    Seeds without are left out; of equal checkpoints the first is the best.
    """
    found = []
    for points in seeds.values():
        scored = [point for point in points if point.value is not None]
        best = max(scored, key=lambda point: point.value or 0.0, default=None)
        if best is not None and (value := best.metrics.get(metric)) is not None:
            found.append((best.step, value))
    return found


def _known(points: Sequence[DevPoint], metric: str) -> Iterator[tuple[int, float]]:
    for point in points:
        if (value := point.metrics.get(metric)) is not None:
            yield point.step, value
