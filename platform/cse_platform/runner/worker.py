"""Run a method as a Ray Tune function in a worker, whose process runs one trial after another."""

import gc
import os
import reprlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any

import ray
from pydantic import ValidationError
from ray import tune
from ray.tune.result import RESULT_DUPLICATE
from ray.tune.trainable import wrap_function

from cse_methods.allocator import return_freed_memory
from cse_methods.config import MethodConfig
from cse_methods.contract import Method
from cse_methods.data.transfer_sets import fetch_transfer_sets
from cse_methods.files.places import filesystem
from cse_methods.guard import guard
from cse_methods.registry import get_method
from cse_methods.reports import check_report, is_recorded, real_number
from cse_methods.settings import record_reads
from cse_platform.errors import SettingsError, WorkerBusyError
from cse_platform.gc_settings import collect_rarely, spare_survivors
from cse_platform.kept_models import keep_model
from cse_platform.runner.checkpoints import TrialCheckpoints
from cse_platform.runner.failures import keep_source_lines, report_of
from cse_platform.runner.machine_sampling import MachineSampler
from cse_platform.runner.output_capture import OutputCapture, capture_output, is_stopped_by_tune
from cse_platform.runner.report_messages import (
    REPORT,
    Report,
    find_attempt,
    find_node,
    make_result,
    send,
)
from cse_platform.sweep.blocks import CHECKPOINT_EVERY
from cse_platform.sweep.identity import code_hash
from cse_platform.sweep.problems import joined_problems, problems_in
from cse_platform.tracking.provenance import peak_memory, reset_peak_memory, trial_provenance

_OF_SWEEP = ("code", "own_tests", "kept_model", "checkpoint_every", "checkpoints", "tells_node")
RESERVED = frozenset(("seed", "resume_from", *_OF_SWEEP))
"""Entries of `param_space` that are not settings of the method."""


def trainable(method: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make a method a Tune function, for this package's sweeps and for anyone's script.

    `param_space` holds the settings of the method (`backbone`, `corpus`, `data`, `dev` and
    hyperparameters) and these optional entries:

    - `seed`: 0 if left out;
    - `resume_from`: a checkpoint folder;
    - `code`: the expected hash of the code; the trial fails if the code here has another one;
    - `own_tests`: a lab's own test files, which stay closed;
    - `kept_model`: the trial's key, and the location to which its best checkpoint is copied;
    - `checkpoint_every`: seconds between two checkpoints, by default that of `resources`;
    - `checkpoints`: the folder or URI to which a sweep's trials write them, each into a folder of
      its own; reports then have what the trial prints. Without it, Ray keeps the checkpoints.

    Every result of a dev point has `step`, the recorded metrics of `Run.report` as floats, and
    those of `MachineSampler.take`; the last trained step always has a checkpoint
    (`TrialCheckpoints`). The last result has no `step` and holds the metrics of the best
    checkpoint. What a sweep's driver reads is under `cse` (`Report`). The worker's process can open
    no test set (`cse_methods.guard`).

    Args:
        method: its name, as in a sweep file.

    Raises:
        UnknownMethodError: if there is no such method.
    """
    get_method(method)

    def run_trial(settings: dict[str, Any]) -> dict[str, Any]:
        root = settings.get("checkpoints")
        with nullcontext() if root is None else capture_output(root) as output:
            return train(settings, output)

    def train(settings: dict[str, Any], output: OutputCapture | None) -> dict[str, Any]:
        loaded_method, config = prepare_process(method, settings, threads=_count_assigned_threads())
        code = code_hash(loaded_method)
        if settings.get("code") not in (None, code):
            raise SettingsError(
                f"the code of {loaded_method.name} on this machine is not the code that the "
                "sweep started with: it was edited, or another version is installed here; "
                "restore it, or keep it (once a trial is complete, under another name of the "
                "sweep), and run the same command again"
            )
        every = settings.get("checkpoint_every", CHECKPOINT_EVERY)
        root = settings.get("checkpoints")
        with (
            reset_process_at_end(),
            _open_checkpoint(settings.get("resume_from")) as folder,
            closing(TrialCheckpoints(every, root=root)) as checkpoints,
            closing(MachineSampler(_count_assigned_threads())) as machine,
        ):
            seed = settings.get("seed", 0)
            recorded, read = record_reads(config)
            with closing(
                TuneRun(seed, folder, config, checkpoints, machine, code=code, output=output)
            ) as run:
                best = _extract_numbers(loaded_method.train(recorded, run))
            unread = [name for name in config.hyperparameters() if name not in read]
            kept, checkpoint, problem = settings.get("kept_model"), checkpoints.last or folder, None
            if kept and checkpoint:
                waits = Report(attempt=find_attempt(), waits="no room on the disk for its model")
                problem = keep_model(str(checkpoint), **kept, waiting=lambda: send(waits)) or ""
            last = Report(
                attempt=find_attempt(),
                model_problem=problem,
                unread=tuple(unread if folder is None else ()),  # a resumed one reads less
            )
            return best | make_result(last)

    run_trial.__name__ = method
    return run_trial


_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""The variables that hold the options of PyTorch's allocator: the current name, and the older."""


def prepare_gpus() -> None:
    """Hide GPUs that Ray has not assigned to this process, and enable expandable memory segments.

    Ray shows all GPUs of the node to a worker that asked for none, and a method uses any GPU that
    it sees. Expandable segments keep batches of varying length from fragmenting the GPU's memory;
    an allocator option that the environment already sets is kept. Call this before torch looks for
    GPUs.
    """
    if not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"
    if ray.is_initialized() and not ray.get_runtime_context().get_accelerator_ids()["GPU"]:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""


def prepare_process(
    method: str, settings: Mapping[str, Any], *, threads: int
) -> tuple[Method, MethodConfig]:
    """Prepare this process for training: close the test sets and set the number of CPU threads.

    Returns:
        The method, and the configuration of its trial.
    """
    collect_rarely()
    prepare_gpus()
    # Before any of the method's own code is imported. `dev` is not validated yet; an invalid one is
    # refused right afterwards.
    climbs = "transfer_dev" in str(settings.get("dev"))
    if climbs:  # the hub has these dev sets only in one archive with the test sets
        fetch_transfer_sets(settings.get("data"))
    guard(transfer_dev=climbs, own=settings.get("own_tests", ()))
    loaded_method = get_method(method)
    # Importing torch takes seconds, so a method that does not need it must not pay for it. One that
    # imports it later, during its training, gets the number from the environment.
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):  # the latter is the tokenizers'
        os.environ[name] = str(threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    given = {name: value for name, value in settings.items() if name not in RESERVED}
    loaded_method = loaded_method.specialise_for({name: (value,) for name, value in given.items()})
    keep_source_lines(loaded_method)
    try:
        return loaded_method, loaded_method.config.model_validate(given)
    except ValidationError as error:
        reason = joined_problems(problems_in(error, given, model=loaded_method.config))
        raise SettingsError(f"{method} refuses its settings: {reason}") from None


class TuneRun:
    """The `Run` that a method gets inside a Tune worker; it belongs to one attempt at one trial.

    Any thread may report, one at a time. Once it is closed, the process can work on another trial.
    """

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
        self._attempt, self._lock, self._is_closed = find_attempt(), threading.Lock(), False
        self._code = {} if code is None else {"code": code}
        self._described: str | None = None
        """The device of the last full provenance."""

    def report(
        self, *, step: int, metrics: Mapping[str, float], save: Callable[[Path], None] | None = None
    ) -> None:
        """Report one dev point to Tune, which may end the trial here.

        Raises ValueError, before anything is saved, if a metric or the step is not a number, and
        RuntimeError if the trial has ended.
        """
        count, numbers = check_report(step, metrics)
        with self._lock:
            if self._is_closed:
                raise RuntimeError(
                    f"step {count} is reported after the end of its trial, and is not recorded; a "
                    "method returns once all its threads have reported"
                )
            facts = self._collect_provenance()
            message = Report(
                attempt=self._attempt,
                step=count,
                metrics={**self._machine.take(), **numbers},
                provenance=facts,
                output=None if self._output is None else self._output.take(),
            )
            try:
                self._checkpoints.report_point(message, step=count, save=save)
            except SystemExit:  # Tune ends the trial
                self._is_closed = True
                raise

    def close(self) -> None:
        """Let further reports raise, once the one that is under way has been received."""
        with self._lock:
            self._is_closed = True

    def _collect_provenance(self) -> dict[str, str]:
        """Collect the peak memory; at the first report also the code's hash and the machine.

        Both are collected again if the device changes, as when a method first imports torch later.
        """
        torch = sys.modules.get("torch")
        device = "cuda" if torch and torch.cuda.is_available() else "cpu"
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
    """Extract the numbers from what a method returns as the metrics of its best checkpoint.

    Nothing, or a single number, gives {}; values that are not numbers are left out, because no
    sweep reads them. Raises TypeError for anything else.
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


@contextmanager
def _open_checkpoint(location: str | None) -> Iterator[Path | None]:
    """Yield a local folder with the checkpoint to resume from; None if there is none.

    A checkpoint that Tune itself has, after `Tuner.restore`, is newer than `location` and wins. One
    in an object store is downloaded while the context is open.
    """
    checkpoint = tune.get_checkpoint()
    if checkpoint is None and location is not None:
        files, path = filesystem(location)
        checkpoint = tune.Checkpoint(path, filesystem=files)
    if checkpoint is None:
        yield None
        return
    with checkpoint.as_directory() as folder:
        yield Path(folder)


def _count_assigned_threads() -> int:
    """Return the number of CPU threads of this trial: its assigned CPUs, at least one."""
    resources = tune.get_context().get_trial_resources()
    assigned = resources.required_resources.get("CPU") if resources is not None else None
    return max(1, int(assigned or os.cpu_count() or 1))


_FRESH_SEED = 67280421310721
"""The default seed of torch's generators in a new process."""


def make_reusable_trainable(function: Callable[[dict[str, Any]], Any]) -> type:
    """Make a Tune trainable of a function, whose process can run further trials.

    Errors of the function are reported to the driver and end the process, because their cause, such
    as a broken GPU, could also make the next trial fail. Of results, only our reports leave the
    process: those that a method hands to Ray itself could hold anything.
    """
    returned: set[str] = set()
    """Attempts of this process whose function has returned."""

    @wraps(function)
    def run_and_report(settings: dict[str, Any]) -> Any:
        if settings.get("tells_node"):
            send(Report(attempt=find_attempt(), begins=True, node=find_node()))
        try:
            result = function(settings)
            returned.add(find_attempt())
            return result
        except BaseException as error:
            if is_stopped_by_tune(error):
                raise
            send(Report(attempt=find_attempt(), error=report_of(error), node=find_node()))
        # Not the original error: Ray would pickle it, and the driver may lack its class.
        raise RuntimeError("the method failed, and the driver knows")

    class Reusable(wrap_function(run_and_report)):  # type: ignore[misc]  # Ray is untyped
        def step(self) -> dict[str, Any]:
            """Return the next result without what a method has handed to Ray itself.

            Ray's mark of the end passes only once the function has returned.
            """
            result: dict[str, Any] = super().step()
            sent: dict[str, Any] = {}
            if type(report := result.get(REPORT)) is str:
                sent[REPORT] = report
            if RESULT_DUPLICATE in result and find_attempt() in returned:
                sent[RESULT_DUPLICATE] = True
            result.clear()  # in place, because Ray sends it with its checkpoint, too
            result.update(sent)
            return result

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            """Prepare for the next trial, once the thread of the previous one has ended.

            If this returned False, Ray would end the next trial without telling the scheduler. An
            exception is reported, and the trial starts in another process.
            """
            if super().reset_config(new_config):
                return True
            raise WorkerBusyError("the previous trial kept running after it was stopped")

    Reusable.__name__ = function.__name__
    return Reusable


@contextmanager
def reset_process_at_end() -> Iterator[None]:
    """Reset the process at the end of a trial, so that the next one finds it as good as new.

    Freed memory is returned to the system, torch's generators get their default seed, and the peak
    of memory is reset before the trial. State in a method's modules is not touched.
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
