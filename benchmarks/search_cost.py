"""Measure the cost of an ask, a report and a tell in a large study, for each sampler.

Launch: make bench-search-cost [BENCH="--trials 200 --samplers tpe gp"]
The study has a median pruner; seven other trials are running. Its ended
trials have three dev points each and, for samplers that store their own attributes, were proposed
by the sampler itself. The target is 100 ms each at 1,000 trials. CPU time is printed beside elapsed
time, because other work may run on the machine.
"""

import json
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from console import options, say
from optuna.trial import FrozenTrial, TrialState

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

import cheap as _registers_it  # noqa: F401
from search_studies import lived, score

from cse_platform.search.proposals import add_proposal, propose
from cse_platform.search.study import SearchStudy
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory

SAMPLERS = ("random", "qmc", "tpe", "gp", "cmaes", "auto")
RUNNING = 7
ASKS = 9
SPACE: dict[str, Any] = {
    **{name: {"low": 0.0, "high": 1.0} for name in "xyabc"},
    "rate": {"low": 1e-5, "high": 1e-2, "log": True},
    "kind": ["a", "b", "c"],
}


def main() -> None:
    """Print a line for each sampler, and write all results to the `--json` file."""
    asked, found = arguments(), {}
    for sampler in asked.samplers:
        found[sampler] = cost(sampler, asked.trials)
        said = "; ".join(
            f"{name} {ms['clock']:.0f} ms (CPU {ms['cpu']:.0f})"
            for name, ms in found[sampler].items()
        )
        say(f"{sampler} at {asked.trials} trials: {said}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


def cost(sampler: str, trials: int) -> dict[str, dict[str, float]]:
    """Measure the median milliseconds of an ask, a report and a tell."""
    searched = spec(sampler, trials + ASKS + RUNNING)
    search = SearchStudy(searched, start_points=(), history=History())
    search.study.add_trials(former(sampler, trials))
    for _ in range(RUNNING):
        add_proposal(search.study, searched, search.ask())
    times = Times()
    for _ in range(ASKS):
        proposal = times.of("ask", search.ask)
        add_proposal(search.study, searched, proposal)
        (trial,) = lived(proposal.number, [0.1, 0.2, 0.3], state="COMPLETE").trials.values()
        for step in trial.curve:
            times.of("report", partial(judge_and_report, search, trial, step))
        times.of("tell", partial(search.tell, trial))
    return times.medians()


def judge_and_report(search: SearchStudy, trial: TrialHistory, step: int) -> None:
    """Do with a dev point what a sweep does, but for its record."""
    _, notes = search.judge(trial, step=step)
    search.report(trial, step=step, notes=notes)


def spec(sampler: str, trials: int) -> SweepSpec:
    """Make a search of seven dimensions."""
    return SweepSpec.model_validate(
        {
            "sweep": "small",
            "method": "cheap",
            "backbone": "mini",
            "corpus": "builtin",
            "space": SPACE,
            "search": {"sampler": sampler, "trials": trials, "seed": 1},
            "pruner": {"kind": "median"},
        }
    )


def former(sampler: str, trials: int) -> list[FrozenTrial]:
    """Make ended trials with three dev points each."""
    drawn_by = "cmaes" if sampler == "cmaes" else "random"  # it counts its own trials
    study, small = optuna.create_study(direction="maximize"), spec(drawn_by, trials)
    for number in range(trials):
        proposal = propose(study, small)
        add_proposal(study, small, proposal)
        study.tell(number, score(proposal.assignment))
    ended = study.get_trials()
    for trial in ended:
        assert trial.state == TrialState.COMPLETE and trial.value is not None
        trial.intermediate_values = {step: trial.value - 0.01 * (3 - step) for step in (1, 2, 3)}
    return ended


class Times:
    """The milliseconds that calls took, by name."""

    def __init__(self) -> None:
        self.clock: dict[str, list[float]] = {}
        self.cpu: dict[str, list[float]] = {}

    def of(self, name: str, call: Callable[[], Any]) -> Any:
        """Call a function, record its time, and return its result."""
        clock, cpu = time.perf_counter(), time.process_time()
        answer = call()
        self.clock.setdefault(name, []).append(1000 * (time.perf_counter() - clock))
        self.cpu.setdefault(name, []).append(1000 * (time.process_time() - cpu))
        return answer

    def medians(self) -> dict[str, dict[str, float]]:
        """Compute the medians for each name, of elapsed time and of CPU time."""
        return {
            name: {
                "clock": statistics.median(self.clock[name]),
                "cpu": statistics.median(self.cpu[name]),
            }
            for name in self.clock
        }


def arguments() -> Namespace:
    """Parse the command line."""
    parser = options("search_cost.py --trials 200 --samplers tpe gp")
    parser.add_argument("--trials", type=int, default=1000, help="ended trials in the study")
    parser.add_argument(
        "--samplers",
        nargs="+",
        choices=SAMPLERS,
        default=SAMPLERS,
        help="samplers to measure",
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
