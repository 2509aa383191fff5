"""Runs a method as a function of Ray Tune in a worker, whose process runs trial after trial."""

import gc
import os
import reprlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem
from pydantic import ValidationError
from ray import tune
from ray.tune.trainable import wrap_function

from cse_methods.allocator import return_freed_memory
from cse_methods.contract import (
    Method,
    MethodConfig,
    checked_report,
    is_recorded,
    real_number,
)
from cse_methods.data.transfer_sets import fetch_transfer_sets
from cse_methods.files.places import filesystem
from cse_methods.guard import guard
from cse_methods.registry import get_method
from cse_methods.settings import record_reads
from cse_platform.errors import SettingsError, WorkerBusyError
from cse_platform.gc_settings import collect_rarely, spare_survivors
from cse_platform.runner.checkpoints import WAITS, TrialCheckpoints
from cse_platform.runner.failures import report_of
from cse_platform.runner.gpus import prepare_gpus
from cse_platform.runner.machine_sampling import MachineSampler
from cse_platform.runner.models import keep_model, wait_for_room
from cse_platform.runner.output_capture import (
    OutputCapture,
    capture_output,
    is_stopped_by_tune,
)
from cse_platform.sweep.blocks import CHECKPOINT_EVERY
from cse_platform.sweep.identity import code_hash
from cse_platform.sweep.problems import joined_problems, problems_in
from cse_platform.tracking.provenance import peak_memory, reset_peak_memory, trial_provenance

KEPT_MODEL = "kept_model"
"""The entry of the last result that says what prevented the model from being kept, or None."""
UNREAD = "unread_settings"
"""The entry of the last result that names the hyperparameters that nothing has read."""
_OF_SWEEP = ("code", "own_tests", "kept_model", "checkpoint_every", "keep_output")
RESERVED = frozenset(("seed", "resume_from", *_OF_SWEEP))
"""Entries of `param_space` that are not settings of the method."""


def trainable(method: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A method as a Tune function, for this package's sweeps and for anyone's script.

    `param_space` holds `seed` (0 if left out), the settings of the method (`backbone`, `corpus`,
    `data`, `dev` and hyperparameters), and optionally `resume_from`, a checkpoint folder, `code`,
    the hash without which the trial fails, because its key would be that of other code,
    `own_tests`, a lab's own test files, which stay shut, `kept_model`, the key of the trial and
    the place that its best checkpoint is copied to, `checkpoint_every`, the seconds from a
    checkpoint to the next, by default those of `resources`, and `keep_output`, True where the
    reports are to have what the trial prints under `output`.

    Every report of a dev point has `step`, the metrics of `Run.report` that are recorded, as
    floats, those of `MachineSampler.take`, and under `provenance` the peak memory until then; the
    first one also has the hash of the code that trains, and what it runs on. One with a checkpoint
    also has `checkpoint_step`, the step that this is of; the last trained step always has one
    (`TrialCheckpoints`). The last result, without `step`, is that of the best checkpoint; where the
    trial was not resumed, its `unread_settings` are the hyperparameters that nothing has read. The
    worker's process can open no test set (`cse_methods.guard`).

    Args:
        method: as in a sweep file.

    Raises:
        UnknownMethodError: if there is no such method.
    """
    get_method(method)

    def run_trial(settings: dict[str, Any]) -> dict[str, Any]:
        with capture_output() if settings.get("keep_output") else nullcontext() as output:
            return train(settings, output)

    def train(settings: dict[str, Any], output: OutputCapture | None) -> dict[str, Any]:
        loaded_method, config = prepare_process(method, settings, threads=_count_assigned_threads())
        code = code_hash(loaded_method)
        _refuse_other_code(loaded_method, code, settings.get("code"))
        every = settings.get("checkpoint_every", CHECKPOINT_EVERY)
        with (
            as_found(),
            _open_checkpoint(settings.get("resume_from")) as folder,
            closing(TrialCheckpoints(every)) as checkpoints,
            closing(MachineSampler(_count_assigned_threads())) as machine,
        ):
            seed = settings.get("seed", 0)
            run = TuneRun(seed, folder, config, checkpoints, machine, code=code, output=output)
            recorded, read = record_reads(config)
            best = _extract_numbers(loaded_method.train(recorded, run))
            kept = _keep_model(settings.get("kept_model"), folder)
            return best | kept | (_find_unread(config, read) if folder is None else {})

    run_trial.__name__ = method
    return run_trial


def _find_unread(config: MethodConfig, read: Collection[str]) -> dict[str, Any]:
    """Find the hyperparameters that take part, and that a whole training has not read."""
    return {UNREAD: [name for name in config.hyperparameters() if name not in read]}


def _keep_model(wanted: Mapping[str, str] | None, resumed_from: Path | None) -> dict[str, Any]:
    """Keep the best encoder of the trial's last checkpoint, if that is wanted.

    Returns:
        What the last result says of it; nothing for a trial that has no checkpoint.
    """
    reported = tune.get_checkpoint()
    if wanted is None or (reported is None and resumed_from is None):
        return {}
    if reported is not None:
        source = (reported.filesystem, reported.path)
    else:
        source = (LocalFileSystem(), str(resumed_from))
    problem = wait_for_room(
        lambda: keep_model(*source, wanted["place"], trial=wanted["trial"]),
        what="the model",
        waiting=lambda: tune.report({WAITS: "no room on the disk for its model"}),
    )
    return {KEPT_MODEL: problem}


def prepare_process(
    method: str, settings: Mapping[str, Any], *, threads: int
) -> tuple[Method, MethodConfig]:
    """Prepare this process for training: test sets are shut, and it uses so many CPU threads.

    Returns:
        The method, and the configuration of its trial.
    """
    collect_rarely()
    prepare_gpus()
    _forbid_tests(settings)  # before a line of the method's own code
    loaded_method = get_method(method)
    _set_threads(threads)
    given = {name: value for name, value in settings.items() if name not in RESERVED}
    loaded_method = loaded_method.beside({name: (value,) for name, value in given.items()})
    return loaded_method, _validate_settings(method, loaded_method.config, given)


class TuneRun:
    """`Run` inside a Tune worker."""

    def __init__(
        self,
        seed: int,
        resume_from: Path | None,
        config: MethodConfig,
        checkpoints: TrialCheckpoints,
        machine: MachineSampler,
        *,
        code: str | None,
        output: OutputCapture | None = None,
    ) -> None:
        self.seed = seed
        self.resume_from = resume_from
        self._config, self._checkpoints = config, checkpoints
        self._machine, self._output = machine, output
        self._code = {} if code is None else {"code": code}
        self._described: str | None = None
        """The device that the last provenance described."""

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        """Publish one dev point to Tune; the trial can end here.

        ValueError, before anything is saved, if a metric or the step is no number.
        """
        count, numbers = checked_report(step, metrics)
        facts = self._collect_provenance()
        result = {"step": count, **self._machine.take(), **numbers, "provenance": facts}
        printed = {} if self._output is None else self._output.take()
        self._checkpoints.report(result | printed, save)

    def _collect_provenance(self) -> dict[str, str]:
        """Collect the peak memory; at the first report also the code, and what it runs on.

        A method may import torch after its first report, and only then have a GPU.
        """
        device = _find_device()
        if device == self._described:
            return peak_memory(device)
        self._described = device
        if device != "cpu":
            self._machine.watch_gpu()
        in_tf32 = device == "cuda" and self._config.arithmetic == "tf32"
        precision = self._config.hyperparameters().get("precision", "fp32")
        facts = trial_provenance(
            device=device,
            precision="tf32" if in_tf32 else precision,
            attention=self._config.attention,
            threads=_count_assigned_threads(),
        )
        return facts | self._code | peak_memory(device)


def _extract_numbers(best: object) -> dict[str, float]:
    """Extract the numbers of the best checkpoint from what a method returns, or nothing.

    Raises TypeError if it is something else. No sweep reads it, so a value that is no number is
    left out.
    """
    if best is None or real_number(best) is not None:
        return {}
    if not isinstance(best, Mapping):
        raise TypeError(
            f"the method returned {reprlib.repr(best)}; it returns the metrics of its best "
            "checkpoint, a mapping of names to numbers"
        )
    names = [name for name in best if isinstance(name, str) and is_recorded(name)]
    numbers = {name: real_number(best[name]) for name in names}
    return {name: number for name, number in numbers.items() if number is not None}


def _validate_settings(
    method: str, config: type[MethodConfig], settings: Mapping[str, Any]
) -> MethodConfig:
    try:
        return config.model_validate(settings)
    except ValidationError as error:
        reason = joined_problems(problems_in(error, settings, model=config))
        raise SettingsError(f"{method} refuses its settings: {reason}") from None


def _refuse_other_code(method: Method, code: str | None, expected: str | None) -> None:
    if expected is not None and code != expected:
        raise SettingsError(
            f"the code of {method.name} on this machine is not the code that the sweep was started "
            "with; it was edited meanwhile, or another version is installed here: put it back, or "
            "run it as another sweep: --set sweep=NEWNAME"
        )


def _forbid_tests(settings: Mapping[str, Any]) -> None:
    """Keep this process from opening any test set from here on."""
    # Not validated yet: what is no selection of dev sets is refused in a moment.
    climbs = "transfer_dev" in str(settings.get("dev"))
    if climbs:  # what the hub has of these comes in one archive with the test sets
        fetch_transfer_sets(settings.get("data"))
    guard(transfer_dev=climbs, own=settings.get("own_tests", ()))


@contextmanager
def _open_checkpoint(place: str | None) -> Iterator[Path | None]:
    """Open a local folder with the checkpoint to go on from; None if there is none.

    One that Tune itself has, after `Tuner.restore`, is newer than that of `place` and wins; one
    from an object store is downloaded for the while.
    """
    checkpoint = tune.get_checkpoint()
    if checkpoint is None and place is not None:
        files, path = filesystem(place)
        checkpoint = tune.Checkpoint(path, filesystem=files)
    if checkpoint is None:
        yield None
        return
    with checkpoint.as_directory() as folder:
        yield Path(folder)


def _count_assigned_threads() -> int:
    """CPU threads of this trial: as many as the CPUs it was given, at least one."""
    resources = tune.get_context().get_trial_resources()
    assigned = resources.required_resources.get("CPU") if resources is not None else None
    return max(1, int(assigned or os.cpu_count() or 1))


def _set_threads(threads: int) -> None:
    # Importing torch takes seconds, so only a method that needs it pays for it. A method that
    # imports it later, inside its training, gets the threads from the environment.
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):  # the latter is the tokenizers'
        os.environ[name] = str(threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def _find_device() -> str:
    torch = sys.modules.get("torch")
    return "cuda" if torch and torch.cuda.is_available() else "cpu"


FAILURE = "failure"
"""The entry of a last result that says what the method has raised."""

_FRESH_SEED = 67280421310721
"""Torch's generators have this seed before anyone sets one."""


def make_reusable(function: Callable[[dict[str, Any]], Any]) -> type:
    """Make a trainable of a function that Tune can run, whose process runs further trials.

    It tells the driver what the function raises, and that ends its process: what has failed once,
    such as a GPU, can fail the next trial.
    """

    @wraps(function)
    def run_and_report(settings: dict[str, Any]) -> Any:
        try:
            return function(settings)
        except BaseException as error:
            if is_stopped_by_tune(error):
                raise
            tune.report({FAILURE: report_of(error)})
        # Not the error itself: Ray would pickle it, and the driver may not have what it needs.
        raise RuntimeError("the method has failed, and the driver was told")

    class Reusable(wrap_function(run_and_report)):  # type: ignore[misc]  # Ray is untyped
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            """Prepare for the next trial, once the thread of the one before has ended.

            Where Ray's own returns False, it ends the next trial without a word to the scheduler.
            An exception is reported, and the trial starts elsewhere.
            """
            if super().reset_config(new_config):
                return True
            raise WorkerBusyError("the trial before went on after it had been stopped")

    Reusable.__name__ = function.__name__
    return Reusable


@contextmanager
def as_found() -> Iterator[None]:
    """Reset the process at the end of a trial, so that the next one finds it like a new one.

    Memory goes back, torch's generators have their first seed again, and the peak of memory counts
    anew. State in the modules of a method is not touched.
    """
    reset_peak_memory()
    try:
        yield
    finally:
        gc.collect()  # modules and their autograd graphs hold cycles
        spare_survivors()  # else it takes longer than a small trial
        if torch := sys.modules.get("torch"):
            torch.manual_seed(_FRESH_SEED)
            torch.cuda.empty_cache()  # does nothing where CUDA was not used
        return_freed_memory()
