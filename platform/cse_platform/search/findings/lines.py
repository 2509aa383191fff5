"""What a search has found, in sentences for people."""

from collections.abc import Iterator

from cse_platform.leaderboard.statistics.expected_best import ExpectedBest
from cse_platform.render.formats import percent, short_value
from cse_platform.search.findings.findings import AtBorder, SearchFindings

_SHOWN = 3
"""Hyperparameters whose importance is told."""


def finding_lines(found: SearchFindings) -> list[str]:
    """Four to eight lines."""
    return [
        _expected(found),
        _luck(found),
        *_importances(found),
        *(_border(one) for one in found.borders),
    ]


def _expected(found: SearchFindings) -> str:
    few = [_up_to(found, found.trials // 8), _up_to(found, found.trials // 4)]
    told = ", ".join(dict.fromkeys(_reaches(one) for one in few if one))
    expected = f"; expected of {told}" if told else ""
    order = "" if found.independent else f" (these trials in any order, not {found.sampler} anew)"
    return f"best of {found.trials} trials {percent(found.best)}{expected}{order}"


def _up_to(found: SearchFindings, trials: int) -> ExpectedBest | None:
    """Of the most trials that are not more than that; for many trials, not each number is there."""
    return max(
        (one for one in found.expected if one.trials <= trials),
        key=lambda one: one.trials,
        default=None,
    )


def _reaches(one: ExpectedBest) -> str:
    return f"{one.trials} {percent(one.mean)} [{percent(one.low)}, {percent(one.high)}]"


def _luck(found: SearchFindings) -> str:
    curse = found.curse
    if curse is None:
        return (
            "how much of the best is luck is unknown: no further seeds of it "
            "(seeds: {confirm: {top: …, seeds: […]}})"
        )
    ends = ""
    if curse.low is not None and curse.high is not None:
        ends = f" [{percent(curse.low)}, {percent(curse.high)}]"
    seeds = "1 fresh seed" if curse.seeds == 1 else f"{curse.seeds} fresh seeds"
    return (
        f"luck in the best: {percent(curse.excess)}{ends}; {seeds} of it reach "
        f"{percent(curse.fresh)}"
    )


def _importances(found: SearchFindings) -> Iterator[str]:
    if found.importances:
        told = ", ".join(
            f"{one.name} {one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"
            for one in found.importances[:_SHOWN]
        )
        yield f"what decides ({found.evaluator}): {told}"


def _border(one: AtBorder) -> str:
    high = one.side == "high"
    if one.choices:
        where, way = f"at {short_value(one.bound)}", f"add a choice {'above' if high else 'below'}"
    else:
        where = f"in the outer tenth at {one.side}={short_value(one.bound)}"
        way = f"move {one.side} {'up' if high else 'down'}"
    told = f"{one.of_best} of the best 5 trials have {one.name} {where}"
    return f"at the border: {told}; {way}, if the method allows it"
