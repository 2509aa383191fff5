"""Ray: started on this machine or joined, and given trials to run."""

import logging
import os
import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray import tune

from cse_methods.allocator import ONE_ARENA
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.hooks import Hooks
from cse_platform.runner.processes.joining import prepare_to_join, upload
from cse_platform.runner.processes.own_ray import shut_down_ray, start_own, without_noise
from cse_platform.runner.processes.worker import trainable
from cse_platform.runner.processes.worker_process import reusable
from cse_platform.runner.shipping.shipment import Shipment
from cse_platform.signals import heed_sigterm, interrupt_handler_kept
from cse_platform.sweep.resources import Slot
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores

RAY_SETTINGS = {
    **ONE_ARENA,  # for the workers that this process starts
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths mean the same in a trial as in the file
    "RAY_DEDUP_LOGS": "0",
    "RAY_idle_worker_killing_time_threshold_ms": "600000",  # for the next stage to score in
    "RAY_prestart_worker_first_driver": "false",  # trials need processes of another environment
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results go through the journal alone
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to leave its worker
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal resumes a sweep, not Ray's snapshot
    "TUNE_STATE_REFRESH_PERIOD": "86400",  # Tune asks for resources to print them, and it is silent
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # told in one line, and whole in the sweep's folder
    "TUNE_MAX_PENDING_TRIALS_PG": "100000",  # the searcher decides how many
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}


def join_cluster(address: str | None, shipment: Shipment | None = None) -> None:
    """Join the Ray cluster at `address`, whose workers get the shipment; else start one here.

    One that this process has joined before is kept, unless with another shipment; the end of the
    process leaves it.
    SweepRefusedError if nothing answers at the address, or what answers does not let this in.
    """
    for name, value in RAY_SETTINGS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)
    if ray.is_initialized():
        if not _has_other_code(shipment):
            return
        shut_down_ray()  # the environment of a cluster that was joined cannot be changed
    environment: dict[str, Any] = {}
    if address is not None:
        address = prepare_to_join(address)
        if shipment is not None:
            upload(shipment, address)
            environment = shipment.environment
    init = partial(
        ray.init,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env=worker_environment(address) | environment,
    )
    try:
        with without_noise():
            if address is None:
                start_own(init)
            else:
                init(address=address)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise SweepRefusedError(f"cannot join the Ray cluster at {address}: {why}") from error
    finally:
        heed_sigterm()  # Ray has set its own handler, which ends the process at once


def _has_other_code(shipment: Shipment | None) -> bool:
    """Whether what was joined gives its workers another shipment."""
    there = ray.get_runtime_context().runtime_env.get("py_modules")
    return bool(there and shipment and there != shipment.environment["py_modules"])


def worker_environment(address: str | None) -> dict[str, Any]:
    """The environment of a cluster's workers, where this Python's path has a blank or the like.

    Ray writes the path into a shell command as it is, so that no worker would ever start. On a
    cluster elsewhere the path is its own and may be another.
    """
    host = "localhost" if address is None else address.rpartition(":")[0]
    here = host in {"localhost", "127.0.0.1", ray.util.get_node_ip_address()}
    quoted = shlex.quote(sys.executable)
    return {"py_executable": quoted} if here and quoted != sys.executable else {}


def run_tuner(spec: SweepSpec, slot: Slot, places: SweepStores, hooks: Hooks) -> None:
    """Run trials until the searcher has no more; returns early on Ctrl-C.

    Ray is not asked to delete older checkpoints. It would write a snapshot of all trials for each
    new one, and a search would slow down as it grows.
    """
    tuner = tune.Tuner(
        tune.with_resources(reusable(trainable(spec.method)), asdict(slot)),
        tune_config=tune.TuneConfig(
            search_alg=hooks.searcher,
            scheduler=hooks.scheduler,
            num_samples=-1,
            reuse_actors=not spec.resources.fresh_process,
            trial_dirname_creator=lambda trial: str(trial.trial_id),
        ),
        run_config=tune.RunConfig(
            name=Path(places.checkpoints).name,
            storage_path=places.checkpoints.rpartition("/")[0],
            verbose=0,
            callbacks=[hooks.listener],
            failure_config=tune.FailureConfig(max_failures=0),  # restarts are the planner's
        ),
    )
    with interrupt_handler_kept():  # Ray's own would swallow a Ctrl-C that comes later
        tuner.fit()
