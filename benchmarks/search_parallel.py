"""Measure what a search loses by running eight trials at once: `make bench-search-parallel`.

Each search has sixty trials on Hartmann's function of six dimensions with noise; eight running
trials end in random order. Printed are means over repetitions of the regret, by which the best
configuration without its noise is below the optimum, and of the share of proposals within 0.05 of a
running one, where each dimension ranges from 0 to 1.
"""

import random
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from console import options, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

import cheap as _registers_it  # noqa: F401

from cse_platform.search.proposals import add_proposal, propose
from cse_platform.sweep.spec import SweepSpec

SAMPLERS: dict[str, Any] = {
    "random": "random",
    "qmc": "qmc",
    "tpe": "tpe",
    "gp": "gp",
    "cmaes": "cmaes",
}
NAMES = "abcdef"
TRIALS = 60
NEAR = 0.05
NOISE = 0.1
OPTIMUM = 3.32237

# Hartmann 6, as in the collection of Surjanovic and Bingham.
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def main() -> None:
    """Print a line for each sampler and each number of simultaneous trials."""
    parser = options("search_parallel.py --repetitions 5")
    parser.add_argument("--repetitions", type=int, default=20, help="searches per sampler")
    parser.add_argument(
        "--samplers",
        nargs="+",
        choices=SAMPLERS,
        default=list(SAMPLERS),
        help="samplers to measure",
    )
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in asked.samplers:
        for at_once in (1, 8):
            runs = [search(SAMPLERS[name], at_once, seed) for seed in range(asked.repetitions)]
            regret, repeated = (statistics.fmean(column) for column in zip(*runs, strict=True))
            spread = statistics.stdev(one for one, _ in runs) / len(runs) ** 0.5
            say(
                f"{name}, {at_once} at once: regret {regret:.2f} +- {spread:.2f}, "
                f"{100 * repeated:.0f} % near a running trial"
            )


def search(sampler: Any, at_once: int, seed: int) -> tuple[float, float]:
    """Run one search. Returns its regret, and its share of proposals near a running one."""
    spec = SweepSpec.model_validate(
        {
            "sweep": "small",
            "method": "cheap",
            "backbone": "mini",
            "corpus": "builtin",
            "space": {name: {"low": 0.0, "high": 1.0} for name in NAMES},
            "search": {"sampler": sampler, "trials": TRIALS, "seed": seed},
        }
    )
    study, chance = optuna.create_study(direction="maximize"), random.Random(seed)
    running: dict[int, np.ndarray[Any, Any]] = {}
    best, repeated = -np.inf, 0
    for _ in range(TRIALS):
        proposal = propose(study, spec)
        add_proposal(study, spec, proposal)
        point = np.array([proposal.assignment[name] for name in NAMES])
        repeated += any(np.linalg.norm(point - other) < NEAR for other in running.values())
        running[proposal.number] = point
        if len(running) == at_once:
            number = chance.choice(list(running))
            value = hartmann(running.pop(number))
            best = max(best, value)
            study.tell(number, value + chance.gauss(0, NOISE))
    best = max([best, *map(hartmann, running.values())])
    return OPTIMUM - best, repeated / TRIALS


def hartmann(point: np.ndarray[Any, Any]) -> float:
    """Evaluate the function, whose maximum is `OPTIMUM`."""
    return float(_ALPHA @ np.exp(-(_A * (point - _P) ** 2).sum(axis=1)))


if __name__ == "__main__":
    main()
