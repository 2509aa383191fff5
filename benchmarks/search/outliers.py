"""Measure how much very low values harm `gp`, and which floor limits the harm best.

Each search has 40 trials, one at a time. Printed is how far its best configuration, without noise,
is below the optimum: the mean over searches and its standard error, for each floor
(`cse_platform.search.samplers.fitting.FLOOR`). All floors share each search's first ten trials.

    python benchmarks/search/outliers.py [--repetitions 16] [--surface NAME] [--floors 1 2 5 10 inf]
"""

import math
import statistics
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import optuna
from numpy.typing import NDArray

from cse_platform.search.proposals import add_proposal, propose
from cse_platform.search.samplers import fitting
from cse_platform.sweep.spec import SweepSpec

Array = NDArray[np.float64]
TRIALS = 40
DOWN = 50.0
"""How far an outlier is below the other values, in units of the function's range."""

# Hartmann 3 and Branin, as in the collection of Surjanovic and Bingham.
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P = 1e-4 * np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)


def hartmann(x: Array) -> float:
    """Hartmann's function of three dimensions, scaled to [0, 1]."""
    return float(_ALPHA @ np.exp(-(_A * (x - _P) ** 2).sum(axis=1))) / 3.86278


def shelf(x: Array) -> float:
    """A bowl of four dimensions whose maximum is at the edge of a quarter that has outliers."""
    if x[0] > 0.7 - 0.2 * (x[1] - 0.5):
        return -DOWN * (0.8 + 0.4 * x[2])
    centre = np.array([0.66, 0.5, 0.3, 0.6])
    return float(1 - ((x - centre) ** 2 * np.array([1.2, 0.6, 1.0, 0.3])).sum())


def branin(x: Array) -> float:
    """Branin's function, whose values have a long lower tail without outliers."""
    a, b = 15 * x[0] - 5, 15 * x[1]
    slope = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(-(slope**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10 - 0.397887) / 50)


def levy(x: Array) -> float:
    """Levy's function of three dimensions divided by 40, with many hills and no outliers."""
    w = 1 + (20 * x - 11) / 4
    middle = ((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2)).sum()
    ends = math.sin(math.pi * w[0]) ** 2
    return float(
        -(ends + middle + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)) / 40
    )


SURFACES: dict[str, tuple[Callable[[Array], float], int, float, float, float]] = {
    "collapses": (hartmann, 3, 1.0, 0.02, 0.1),
    "shelf": (shelf, 4, 1.0, 0.02, 0.0),
    "branin": (branin, 2, 0.0, 0.02, 0.0),
    "levy": (levy, 3, 0.0, 0.02, 0.0),
}
"""Function, dimensions, optimum, standard deviation of the noise, and the probability that a trial
is an outlier wherever it is."""


def search(surface: str, floor: float, seed: int) -> float:
    """Search once. Returns how far the best configuration is below the optimum."""
    function, dimensions, optimum, noise, collapsing = SURFACES[surface]
    names = [f"x{place}" for place in range(dimensions)]
    spec = SweepSpec.model_validate(
        {
            "sweep": "outliers",
            "method": "simcse",
            "backbone": "mini",
            "corpus": "builtin",
            "space": {name: {"low": 0.0, "high": 1.0} for name in names},
            "search": {"sampler": "gp", "trials": TRIALS, "seed": seed},
        }
    )
    study, rng = optuna.create_study(direction="maximize"), np.random.default_rng(seed)
    told: list[tuple[float, float]] = []
    with patch.object(fitting, "FLOOR", floor):
        for number in range(TRIALS):
            proposal = propose(study, spec)
            add_proposal(study, spec, proposal)
            point = proposal.assignment
            true = function(np.array([point[name] for name in names]))
            value = true + rng.normal(0, noise) - DOWN * (rng.random() < collapsing)
            study.tell(number, value)
            told.append((value, true))
    return optimum - max(told)[1]


def main() -> None:
    """Print a line for each surface and floor."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python benchmarks/search/outliers.py --repetitions 4 --surface branin",
    )
    parser.add_argument(
        "--repetitions",
        type=int,
        default=16,
        help="searches per surface and floor (default: %(default)s)",
    )
    parser.add_argument(
        "--surface",
        action="append",
        choices=SURFACES,
        help="search this surface; can be repeated (default: all)",
    )
    parser.add_argument(
        "--floors",
        nargs="+",
        type=float,
        default=[1, 2, 5, 10, math.inf],
        help="floors to try (default: 1 2 5 10 inf)",
    )
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for surface in asked.surface or SURFACES:
        for floor in asked.floors:
            below = [search(surface, floor, seed) for seed in range(asked.repetitions)]
            error = statistics.stdev(below) / math.sqrt(len(below))
            median = statistics.median(below)
            sys.stdout.write(
                f"{surface}, floor {floor:g}: {100 * statistics.fmean(below):.2f} +- "
                f"{100 * error:.2f}, median {100 * median:.2f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
