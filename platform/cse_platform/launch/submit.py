"""`cse-sweep submit`: check a sweep here, submit it to a cluster, and wait until it has begun."""

import json
import os
import secrets
from collections.abc import Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import click

from cse_methods.code_hash import outside_sources
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.jobs import SWEEP, JobServer, JobState
from cse_platform.runner.pinned_packages import DRIVER_PACKAGES, find_pinned
from cse_platform.runner.shipping import Shipment, shipment_of
from cse_platform.signals import exit_code
from cse_platform.standard_streams import announce, echo
from cse_platform.sweep.bundle import SWEEP_FILE, SweepBundle, pack_sweep
from cse_platform.sweep.preflight import describe_own_sets
from cse_platform.tracking.provenance import code_diffs, sweep_provenance, user_and_host
from cse_platform.tracking.submission import BEGUN, EXIT_LACKS, LACKS, ORDER_FILE

SHOWN_LINES = 20
"""The number of last lines of a failed job's log that are shown."""
_OF_HERE = ("git_", "package_", "method_", "command", "folder")
"""Prefixes of the facts that describe the submitting machine, not the head."""
_RUNNER = "cse_platform.cli.submitted"


def submit_sweep(
    file: Path,
    *,
    address: str,
    runs: str,
    overrides: Sequence[str],
    trials: int | None,
    ship: bool,
) -> None:
    """Submit a sweep file to the cluster at `address`, with its results in `runs` there.

    Returns when the sweep has begun, or has nothing left to do.

    Raises:
        SweepFileError: if the file is invalid.
        SweepRefusedError: if the cluster refuses the sweep, already runs it, or if its job fails
            before the sweep begins.
    """
    if not PurePosixPath(runs).is_absolute():
        raise SweepRefusedError(
            f"--runs {runs}: expected the absolute path of a folder on the cluster's machines"
        )
    bundle = pack_sweep(file, overrides, trials)
    sent_paths = {str(path) for path in bundle.content.values()}
    own = (describe_own_sets(spec, among=sent_paths) for spec in bundle.sweeps.stages)
    for line in dict.fromkeys(chain.from_iterable(own)):
        echo(line)
    name = bundle.name
    announce(f"{name}: asking {address}")
    server = JobServer(address)
    if job := server.find_job(name):
        raise SweepRefusedError(
            f"sweep {name!r} is already running as job {job} of {server.url}; follow it with "
            f"cse-sweep logs {name} --follow, or end it with cse-sweep stop {name}"
        )
    job = f"{name}-{secrets.token_hex(4)}"
    info, lines = _submit_job(server, job, bundle, runs=runs, ship=ship)
    if info.driver_exit_code == EXIT_LACKS:
        [lacks] = [line for line in lines if line.startswith(LACKS)]
        absent = json.loads(lacks.removeprefix(LACKS))
        announce(f"{name}: the head installs {', '.join(absent)}")
        job = f"{name}-{secrets.token_hex(4)}"
        info, lines = _submit_job(server, job, bundle, runs=runs, ship=ship, absent=absent)
    _report_outcome(server, bundle, job, (info, lines))


def _submit_job(
    server: JobServer,
    job: str,
    bundle: SweepBundle,
    *,
    runs: str,
    ship: bool,
    absent: list[str] | None = None,
) -> JobState:
    """Submit a job, and wait until the sweep has begun or the job has ended."""
    sources = outside_sources(bundle.sweeps.stages[0].find_method())
    outside = next(iter(sources.values()), None)
    provenance = sweep_provenance(outside)
    sent_facts = {name: fact for name, fact in provenance.items() if name.startswith(_OF_HERE)}
    job_facts = {"submitted_by": user_and_host(), "job": job, "cluster": server.url}
    with TemporaryDirectory(prefix="cse-submit-") as temporary:
        folder, metadata = Path(temporary, "files"), Path(temporary, "metadata")
        shipment = shipment_of(bundle.sweeps.stages) if ship else Shipment()
        order = {
            "job": job,
            "runs": runs,
            "packages": {**shipment.packages, **find_pinned(DRIVER_PACKAGES)} if ship else {},
            "arguments": [SWEEP_FILE, "--runs", runs, *([] if ship else ["--no-ship"])],
            "submission": {
                "provenance": sent_facts | job_facts,
                "diffs": code_diffs(outside),
            },
        }
        for name, content in {**bundle.content, ORDER_FILE: json.dumps(order)}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            text = content.encode() if isinstance(content, str) else content.read_bytes()
            (folder / name).write_bytes(text)
        environment = shipment.environment(metadata) | {"working_dir": str(folder)}
        python = server.find_python()
        if absent:
            environment["pip"] = absent
            python = "python"  # of the environment that pip creates
        with server.failures_refused("does not take the job"):
            server.submit_job(
                entrypoint=f"{python} -m {_RUNNER}",
                submission_id=job,
                runtime_env=environment,
                metadata={SWEEP: bundle.name, "submitted_by": user_and_host()},
            )
    announce(f"{bundle.name}: job {job} starts")
    try:
        for state in server.follow_states(job):
            if any(line.endswith(BEGUN) for line in state[1]):
                break
    except KeyboardInterrupt:
        echo(f"job {job} is still running; end it with cse-sweep stop {bundle.name}", err=True)
        raise click.exceptions.Exit(exit_code()) from None
    return state


def _report_outcome(server: JobServer, bundle: SweepBundle, job: str, state: JobState) -> None:
    info, lines = state
    if info.status.is_terminal() and info.driver_exit_code != 0:
        for line in lines[-SHOWN_LINES:]:
            echo(line, err=True)
        why = f"exit code {info.driver_exit_code}"
        if info.driver_exit_code is None:  # it was never started
            why = " ".join((info.message or "").split())[:500]
        raise SweepRefusedError(
            f"job {job} of {server.url} failed before the sweep started ({why})"
        )
    if info.status.is_terminal():
        for line in lines:
            echo(line)
        return
    names = [spec.sweep for spec in bundle.sweeps.stages]
    echo(f"sweep {names[0]!r} has started as job {job} of {server.url}")
    stores = "" if "CSE_STORE" in os.environ else ", with CSE_STORE set to its leaderboard's URL"
    echo(f"Follow it from anywhere{stores}:")
    for command in ("status {}", "logs {} --follow", "stop {}"):
        echo(f"  cse-sweep {command.format(names[0])}")
    if names[1:]:
        echo(f"Then run {', '.join(names[1:])}.")
