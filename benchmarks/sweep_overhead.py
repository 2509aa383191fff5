"""Compare the overhead of a sweep with that of plain Ray Tune: `make bench-sweep`.

There are two measurements. The first is the time from the end of a trial to the first dev point of
the next, with `mini` and less the dev evaluation itself; plain Ray Tune runs a function that does
nothing, with reused workers. The second is the time of a whole search of a method that does
nothing, with journal, SQL and MLflow, for several numbers of trials. It is compared with Ray Tune
and Optuna, which store nothing, and with the same plus Optuna's storage and Ray's MLflow logger on
SQLite, which is what a person would otherwise wire together. The three take turns, and the medians
of all rounds are compared.

    python benchmarks/sweep_overhead.py [--trials 10 50] [--rounds 3] [--json FILE]
"""

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

from console import last_json, options, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

from sweeps import CHEAP, TINY, Sweep, write_sweep

from cse_platform.runner.ray_process import RAY_SETTINGS
from cse_platform.tracking.events import TrialFinished, TrialPoint

GAP_TRIALS = 8
MOST_GAP, MOST_OVER_TUNE, MOST_SWEEP = 1.5, 0.5, 1.15
"""Targets: the gap in seconds, that minus Ray Tune's, and our time relative to Ray Tune's."""
ONE_AT_A_TIME = {"cpu": 2}


def main() -> None:
    """Print the results with their targets, and write them to the `--json` file."""
    asked = arguments()
    if asked.tune:
        say(json.dumps(tune_gap() if asked.tune == "gap" else tune_search(asked)))
        return
    found: dict[str, Any] = {"gap": gap()}
    ours, theirs = found["gap"]["ours"], found["gap"]["tune"]
    say(
        f"from trial to trial: {ours:.2f} s besides the dev evaluation (target {MOST_GAP}); plain "
        f"Ray Tune {theirs:.2f} s, {ours - theirs:.2f} s less (target {MOST_OVER_TUNE})"
    )
    found["searches"] = [search(number, asked.rounds) for number in asked.trials]
    if len(found["searches"]) > 1:
        found["exponent"] = exponent(found["searches"])
        say(f"seconds grow with trials to the power of {found['exponent']:.2f}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2) + "\n")


def gap() -> dict[str, float]:
    """Measure the median seconds from a trial's end to the next trial's start, ours and Tune's."""
    fixed = {"max_steps": 2, "eval_steps": 2, "batch_size": 8}
    search = {"sampler": "random", "trials": GAP_TRIALS, "seed": 3}
    with tempfile.TemporaryDirectory() as folder:
        sweep = write_sweep(
            Path(folder), TINY, fixed=fixed, search=search, seeds={}, resources=ONE_AT_A_TIME
        )
        run(sweep)
        gaps, ended = [], None
        for event in sweep.events():
            if isinstance(event, TrialFinished):
                ended = event.time
            elif isinstance(event, TrialPoint) and event.step == 0 and ended is not None:
                gaps.append((event.time - ended).total_seconds())
    theirs = last_json([sys.executable, __file__, "--tune", "gap"])["seconds"]
    return {"ours": statistics.median(gaps) - dev_seconds(), "tune": theirs}


def dev_seconds() -> float:
    """Measure the seconds of a dev evaluation of `mini` with two threads."""
    import torch

    from cse_methods.data.dev_selection import DevSelection
    from cse_methods.encoders.loading import load_encoder
    from cse_methods.training.dev_evaluation import DevSuite

    torch.set_num_threads(2)
    dev, encoder = DevSuite(DevSelection(), data="builtin"), load_encoder("mini")
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        dev.evaluate(encoder)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def search(number: int, rounds: int) -> dict[str, float]:
    """Time searches of this many trials that do nothing, including their starts and ends."""
    seconds: dict[str, list[float]] = {"ours": [], "tune": [], "logged": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            options = {"sampler": "tpe", "trials": number, "seed": 3}
            seconds["ours"].append(run(write_sweep(Path(folder), CHEAP, search=options)))
        seconds["tune"].append(tune_seconds(number))
        seconds["logged"].append(tune_seconds(number, "--logged"))
    found = {name: statistics.median(taken) for name, taken in seconds.items()}
    ours, tune, logged = found.values()
    say(
        f"{number} trials: {ours:.1f} s; Ray Tune with Optuna {tune:.1f} s, "
        f"ratio {ours / tune:.2f} (target {MOST_SWEEP}); with a stored study and MLflow "
        f"{logged:.1f} s, ratio {ours / logged:.2f}"
    )
    return {"trials": number, **found}


def tune_seconds(number: int, *options: str) -> float:
    """Time Ray Tune's own search, from the start of its process to the end."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--tune", str(number), *options]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def run(sweep: Sweep) -> float:
    """Time `cse-sweep` from its start to its end, in seconds."""
    started = time.perf_counter()
    ended = sweep.run()
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return time.perf_counter() - started


def exponent(searches: list[dict[str, float]]) -> float:
    """Fit seconds as a power of trials, between the smallest and the largest search."""
    first, last = searches[0], searches[-1]
    return math.log(last["ours"] / first["ours"]) / math.log(last["trials"] / first["trials"])


def tune_gap() -> dict[str, float]:
    """Measure the median seconds between the reports of consecutive functions that do nothing."""
    from ray import tune

    moments: list[float] = []

    class Clock(tune.Callback):
        def on_trial_result(self, *_: Any, **__: Any) -> None:
            moments.append(time.perf_counter())

    def nothing(settings: dict[str, Any]) -> None:
        tune.report({"value": settings["x"]})

    start_ray()
    tune.Tuner(
        tune.with_resources(nothing, ONE_AT_A_TIME),
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=GAP_TRIALS, reuse_actors=True),
        run_config=tune.RunConfig(callbacks=[Clock()], verbose=0, storage_path=tempfile.mkdtemp()),
    ).fit()
    gaps = [after - before for before, after in pairwise(moments)]
    return {"seconds": statistics.median(gaps)}


def tune_search(asked: Namespace) -> dict[str, int]:
    """Run Ray Tune's own search with Optuna over a function that does nothing."""
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def nothing(settings: dict[str, Any]) -> None:
        for step in range(4):
            tune.report({"value": settings["x"], "step": step})

    number, folder = int(asked.tune), tempfile.mkdtemp()
    kept = kept_by_tune(folder) if asked.logged else {"storage": None, "callbacks": []}
    start_ray()
    tune.Tuner(
        tune.with_resources(nothing, {"cpu": 1}),
        param_space={"x": tune.loguniform(0.01, 1)},
        tune_config=tune.TuneConfig(
            num_samples=number,
            reuse_actors=True,
            search_alg=OptunaSearch(
                metric="value", mode="max", seed=3, study_name="search", storage=kept["storage"]
            ),
            max_concurrent_trials=2,
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=folder, callbacks=kept["callbacks"]),
    ).fit()
    return {"trials": number}


def kept_by_tune(folder: str) -> dict[str, Any]:
    """Make Optuna's storage and Ray's MLflow logger, on SQLite files in a folder."""
    from optuna.storages import RDBStorage
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    mlflow = MLflowLoggerCallback(f"sqlite:///{folder}/mlflow.db", experiment_name="search")
    return {"storage": RDBStorage(f"sqlite:///{folder}/search.db"), "callbacks": [mlflow]}


def start_ray() -> None:
    """Start Ray on this machine with the settings of a sweep."""
    import ray

    os.environ.update(RAY_SETTINGS)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def arguments() -> Namespace:
    """Parse the command line."""
    parser = options("sweep_overhead.py --trials 10 50")
    parser.add_argument(
        "--trials",
        type=int,
        nargs="+",
        default=[10, 50, 200],
        help="numbers of trials of the searches",
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds of each")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument(
        "--tune", help="do one measurement of plain Ray Tune; for the benchmark's own use"
    )
    parser.add_argument(
        "--logged", action="store_true", help="with --tune: use Ray Tune's own logging"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
