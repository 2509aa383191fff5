from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest

from cse_methods.registry import own_methods
from cse_platform import trainable
from cse_platform.errors import WorkerBusyError
from cse_platform.runner.report_messages import REPORT, read_report

ONE_AT_A_TIME = {"cpu": 2}
STOPPED_AT = 2
SHORT = {"max_steps": 4, "eval_steps": 2, "batch_size": 8}
TRIALS_IN_ONE_PROCESS = 50
OWN_SETTINGS = {
    "rankcse": {"teachers": ["mini"]},
    "dclr": {"complementary_model": "mini"},
    "diffcse": {"generator": "mini"},
    "hicl": {"max_length": 64},
}
"""What a method needs besides its defaults."""

Trial = dict[str, Any]


@dataclass
class Kept:
    """The process and the dev points of each trial, in their order."""

    processes: dict[str, int] = field(default_factory=dict)
    curves: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)
    """Peak of each trial in MiB."""

    def note(self, trial: str, result: dict[str, Any]) -> None:
        report = read_report(result[REPORT])
        if report.step is None:
            return
        self.processes[trial] = result["pid"]
        self.curves.setdefault(trial, {})[report.step] = {
            name: value
            for name, value in report.metrics.items()
            if name.startswith(("dev/", "train/"))
        }
        if report.step:
            self.memory.append(int(report.provenance["peak_memory_mib"]))


def any_method(settings: Trial) -> Any:
    """A trial of the method that the settings name."""
    return trainable(settings["method"])({k: v for k, v in settings.items() if k != "method"})


def run(trials: list[Trial], folder: Path, *, reuse: bool) -> Kept:
    """Run trials one after another; one whose setting `stop` is true is stopped like a pruned."""
    from ray import tune

    from cse_platform.runner.worker import make_reusable_trainable

    kept = Kept()
    stopped = {place for place, trial in enumerate(trials) if trial.get("stop")}
    space = [{k: v for k, v in trial.items() if k != "stop"} for trial in trials]

    class Listener(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
            kept.note(trial.trial_id, result)

    def stop(trial_id: str, result: dict[str, Any]) -> bool:
        place = list(kept.curves).index(trial_id) if trial_id in kept.curves else -1
        return place in stopped and (read_report(result[REPORT]).step or 0) >= STOPPED_AT

    def unpacked(settings: dict[str, Trial]) -> Any:
        return any_method(settings["trial"])

    how = tune.RunConfig(storage_path=str(folder), callbacks=[Listener()], verbose=0, stop=stop)
    tuner = tune.Tuner(
        tune.with_resources(make_reusable_trainable(unpacked), ONE_AT_A_TIME),
        param_space={"trial": tune.grid_search(space)},
        tune_config=tune.TuneConfig(reuse_actors=reuse, max_concurrent_trials=1),
        run_config=how,
    )
    tuner.fit()
    return kept


def cheap(**changes: Any) -> Trial:
    return {
        "method": "cheap", "seed": 0, "backbone": "mini", "corpus": "builtin", "data": "builtin",
        **changes,
    }  # fmt: skip


@pytest.mark.slow
def test_trials_of_one_process_do_not_see_each_other(joined: None, tmp_path: Path) -> None:
    same, failing, stopped = cheap(), cheap(temperature=9.0), cheap(kind="b", stop=True)
    kept = run([same, stopped, same, failing, same], tmp_path, reuse=True)
    first, cut, second, failed, last = kept.curves.values()
    assert first == second == last
    assert (sorted(first), sorted(cut), sorted(failed)) == ([0, 2, 4, 6], [0, 2], [0])
    *used, other = kept.processes.values()
    assert len(set(used)) == 1
    assert other not in used  # a process in which a trial failed is not used again


def test_a_trial_that_does_not_leave_its_process_holds_up_no_other(monkeypatch) -> None:
    from cse_platform.runner.worker import make_reusable_trainable

    worker = make_reusable_trainable(any_method)
    for is_free in (True, False):
        monkeypatch.setattr(worker.__bases__[0], "reset_config", lambda *_, free=is_free: free)
        if is_free:
            assert worker.reset_config(object.__new__(worker), {})
    with pytest.raises(WorkerBusyError):  # which starts the next trial in another process
        worker.reset_config(object.__new__(worker), {})


def of_method(name: str, **changes: Any) -> Trial:
    own: Trial = OWN_SETTINGS.get(name, {})
    short = {} if name == "untrained" else SHORT
    dev = {"checkpoint": "sickr", "search": "sickr", "also": []}
    return cheap(**{"method": name, "dev": dev, **short, **own, **changes})


@pytest.mark.slow
def test_every_method_comes_out_the_same_in_a_used_process(joined: None, tmp_path: Path) -> None:
    methods = [of_method(name) for name in sorted(own_methods())]
    fresh = run(methods, tmp_path / "fresh", reuse=False)
    assert len(set(fresh.processes.values())) == len(methods)
    others = [of_method("simcse", seed=7), of_method("whitenedcse", seed=8, stop=True)]
    used = run([*others, *methods], tmp_path / "used", reuse=True)
    assert len(set(used.processes.values())) == 1
    assert list(used.curves.values())[len(others) :] == list(fresh.curves.values())


@pytest.mark.slow
def test_memory_comes_back(joined: None, tmp_path: Path) -> None:
    trials = [of_method("simcse", seed=seed, max_steps=2) for seed in range(TRIALS_IN_ONE_PROCESS)]
    kept = run(trials, tmp_path, reuse=True)
    assert len(set(kept.processes.values())) == 1
    assert len(kept.memory) == TRIALS_IN_ONE_PROCESS
    assert max(kept.memory[25:]) <= 1.03 * max(kept.memory[5:25])
