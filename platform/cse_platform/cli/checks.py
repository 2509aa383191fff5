"""Checks a sweep before it starts, for a dry run and for a run alike."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.error import URLError
from urllib.request import urlopen

from cse_platform.cli.common import say
from cse_platform.errors import NoStoreError
from cse_platform.leaderboard.store import refuse_other_schema
from cse_platform.runner.notifying import refuse_unknown_services
from cse_platform.search.storage import refuse_unreachable
from cse_platform.secrets import mask_url
from cse_platform.sweep import preflight
from cse_platform.sweep.file import DraftFile, DraftSweep
from cse_platform.sweep.problems import Inspection, Problem
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores, refuse_unwritable, sweep_stores

ANSWER_SECONDS = 2
"""Seconds that MLflow's server may take to answer."""


@dataclass(frozen=True)
class Checked:
    """A sweep that can start here, or could elsewhere."""

    spec: SweepSpec
    """The sweep, with its data source written out."""
    where: SweepStores
    missing: list[str]
    """Files that must be fetched first, a line each."""
    to_install: list[str]
    """Packages that must be installed first, a line each."""
    own_sets: list[str]
    """What was found in the lab's own dev sets, a line each."""
    sizes: preflight.Sizes | None
    """None while the corpus has to be fetched."""
    doubts: list[str]
    """Settings that are allowed and do not do what they seem to."""
    on_this_machine: bool
    """Whether it runs here, and not on a Ray cluster that was there before."""
    shortage: str | None
    """The reason why a trial does not fit on this machine; None if it does, or on a cluster."""


def check_stages(
    draft: DraftFile, *, runs: Path, address: str | None, offline: bool, starts: bool
) -> list[Checked]:
    """Check every sweep of a file as a run needs it, all that can be checked of each.

    Args:
        draft: the file.
        runs: the folder of the runs.
        address: of a Ray cluster; None is this machine.
        offline: whether what has to be fetched is a problem.
        starts: whether the sweeps are to start now, so that what is not installed is one.

    Raises:
        SweepFileError: names every problem of the file, and of what it needs.
    """
    inspections = [stage.inspection.copy() for stage in draft.stages]
    checked = [
        _check_stage(stage, inspection, runs=runs, address=address, offline=offline, starts=starts)
        for stage, inspection in zip(draft.stages, inspections, strict=True)
    ]
    draft.finish(inspections)
    return [stage for stage in checked if stage is not None]


def _check_stage(
    stage: DraftSweep,
    inspection: Inspection,
    *,
    runs: Path,
    address: str | None,
    offline: bool,
    starts: bool,
) -> Checked | None:
    """Check one sweep of a file. Returns None, and adds to `inspection`, if it has problems."""
    log: Literal["stdout"] | None = "stdout" if starts else None
    say(f"{stage.spec.sweep}: checking data, encoders and stores", log=log)
    spec = preflight.with_data_source(stage.spec, inspection)
    every = [spec.model_copy(update={"fixed": fixed}) for fixed in stage.possible]
    configs = [config for each in every for config in preflight.sample_configs(each, inspection)]
    missing = preflight.missing_downloads(spec, configs, inspection)
    sizes = preflight.sizes_of(spec, configs, inspection)
    inspection.attempt(
        ("notify",), partial(refuse_unknown_services, spec.notify), needs=("notify",)
    )
    store_keys = ("sweep", "stores", "storage")
    where = inspection.attempt(
        ("stores",), partial(sweep_stores, spec, runs=runs), needs=store_keys
    )
    if where is not None:
        _check_stores(where, inspection)
    if offline:
        inspection.problems += [Problem((), f"to fetch: {line}", "--offline") for line in missing]
    if offline or starts:
        inspection.problems += [
            Problem((), line, "not installed") for line in inspection.to_install
        ]
    if inspection.problems or where is None:
        return None
    here = address is None
    return Checked(
        spec,
        where,
        missing=missing,
        to_install=inspection.to_install,
        own_sets=preflight.own_sets(spec),
        sizes=sizes,
        doubts=[
            *stage.notes,
            *preflight.describe_doubts(spec, spec.find_method(), configs, sizes),
            *_check_mlflow(where),
        ],
        on_this_machine=here,
        shortage=preflight.explain_shortage(spec.resources.slot) if here else None,
    )


def _check_stores(where: SweepStores, inspection: Inspection) -> None:
    """Add the problems of stores that a run could not begin with."""
    inspection.attempt(("stores",), partial(refuse_unwritable, where))
    inspection.attempt(("stores", "leaderboard"), partial(_refuse_unusable, where.leaderboard))
    inspection.attempt(("stores", "search"), partial(refuse_unreachable, where.search))


def _refuse_unusable(leaderboard: str) -> None:
    with suppress(NoStoreError):  # a run creates it
        refuse_other_schema(leaderboard)


def _check_mlflow(where: SweepStores) -> list[str]:
    """Describe an MLflow server that does not answer, which a run can do without."""
    if where.mlflow.startswith("http"):
        try:
            urlopen(f"{where.mlflow.rstrip('/')}/health", timeout=ANSWER_SECONDS).close()
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            return [f"{mask_url(where.mlflow)} does not answer ({reason}); a run goes on without"]
    return []
