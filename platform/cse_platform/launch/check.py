"""Check a sweep before it starts, in a dry run as in a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from cse_methods.encoders.backbones import fetch_backbone, resolve_backbone
from cse_platform.errors import NoStoreError, PlatformError
from cse_platform.secrets import mask_url
from cse_platform.standard_streams import announce
from cse_platform.stores.mlflow.store import check_uri, is_server
from cse_platform.stores.optuna.sink import check_search_url
from cse_platform.stores.sql.store import open_for_reading, refuse_read_only
from cse_platform.sweep import preflight
from cse_platform.sweep.doubts import describe_doubts
from cse_platform.sweep.file import DraftFile, DraftSweep
from cse_platform.sweep.problems import Inspection, Problem, Steps, dotted_path
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import (
    SweepStores,
    mlflow_variable,
    ray_temporary_folder,
    refuse_unwritable,
    sweep_stores,
)

ANSWER_SECONDS = 2
"""Timeout in seconds of a request to MLflow's server."""


@dataclass(frozen=True)
class CheckedSweep:
    """A sweep that has passed its checks."""

    spec: SweepSpec
    """The sweep, with its data source filled in."""
    stores: SweepStores
    missing: list[str]
    """Files that must be downloaded first, one line each."""
    to_install: list[str]
    """Packages that must be installed first, one line each."""
    own_sets: list[str]
    """Descriptions of the lab's own dev and test sets, one line each."""
    sizes: preflight.Sizes | None
    """None if the corpus must be downloaded first."""
    doubts: list[str]
    """Settings that are valid but do not do what they seem to, one line each."""
    shortage: str | None
    """Why a trial does not fit on this machine; None if it does, or if it runs on a cluster."""
    steps: Steps
    """The path of the sweep within its file; empty if the file has one sweep."""


@contextmanager
def naming_stage(steps: Steps) -> Iterator[None]:
    """Complete what an error says to `--set` for the stage at this path of a file."""
    try:
        yield
    except PlatformError as error:
        error.args = (str(error).replace("--set ", f"--set {dotted_path((*steps, ''))}"),)
        raise


def check_stages(
    draft: DraftFile,
    *,
    runs: Path,
    address: str | None,
    offline: bool,
    start: Callable[[], object] | None = None,
) -> list[CheckedSweep]:
    """Check everything that each sweep of a file needs for a run, and collect all problems.

    Args:
        draft: the file.
        runs: the runs folder.
        address: address of a Ray cluster; None is this machine.
        offline: whether files that must be downloaded are problems.
        start: starts what runs the sweeps, and is called as soon as only encoders remain to be
            checked. None if no sweep starts now; a missing package is then no problem.

    Raises:
        SweepFileError: names every problem of the file, and of what it needs.
    """
    sound = not draft.problems and not any(stage.inspection.problems for stage in draft.stages)
    checked = [
        _check_stage(stage, runs=runs, address=address, offline=offline, start=start)
        for stage in draft.stages
    ]
    draft.finish(refusal="cannot be run" if sound else "is not a sweep")
    return [stage for stage in checked if stage is not None]


def check_and_fetch(
    draft: DraftFile, *, runs: Path, address: str | None, offline: bool, start: Callable[[], object]
) -> list[CheckedSweep]:
    """Check a file that starts now as `check_stages` does, and download what it needs."""
    check = partial(check_stages, draft, runs=runs, address=address, offline=offline, start=start)
    stages = check()
    if absent := [checked.spec for checked in stages if checked.missing]:
        for spec in absent:
            announce(f"{spec.sweep}: fetching", log="stdout")
            fetch_backbone(resolve_backbone(spec.backbone))
            preflight.read_corpus(spec)
            tested = spec.evaluate.parsed_tasks.referenced if spec.evaluate else ()
            if references := [*spec.dev.references.values(), *tested]:
                from cse_methods.referenced_tasks.library import fetch_references  # torch: seconds

                fetch_references(references)
        stages = check()  # again, now that the files are here
    return stages


def _check_stage(
    stage: DraftSweep,
    *,
    runs: Path,
    address: str | None,
    offline: bool,
    start: Callable[[], object] | None,
) -> CheckedSweep | None:
    """Check one sweep of a file. If it has problems, add them to its inspection; return None."""
    inspection, is_local = stage.inspection, address is None
    announce(
        f"{stage.spec.sweep}: checking data, encoders and stores", log="stdout" if start else None
    )
    spec = preflight.with_data_source(stage.spec, inspection)
    read = {"data": spec.data, "dev": spec.dev}
    configs = [
        config
        for possible in stage.possible
        for config in preflight.sample_configs(possible.model_copy(update=read), inspection)
    ]
    missing = preflight.list_downloads(spec, configs, inspection)
    sizes = preflight.measure_sizes(spec, configs, inspection)
    for index, url in enumerate(spec.notify):
        check_service = partial(preflight.refuse_unknown_service, url)
        inspection.run_check(("notify", index), check_service)
    store_keys = ("sweep", "stores", "storage")
    stores = inspection.run_check(
        ("stores",), partial(sweep_stores, spec, runs=runs), needs=store_keys
    )
    if stores is not None:
        _check_stores(stores, inspection)
    if is_local:
        inspection.run_check((), ray_temporary_folder)
    if offline:
        wanted = "is not on this machine; the same command without --offline fetches it"
        inspection.problems += [Problem((), f"{line} {wanted}", "--offline") for line in missing]
    shortage = preflight.explain_shortage(spec.resources) if is_local else None
    if start and not (inspection.problems or inspection.to_install or missing or shortage):
        with preflight.encoder_modules_imported():
            start()
    preflight.check_encoders(spec, configs, inspection)
    preflight.check_steps(spec, inspection)
    if offline or start:
        inspection.problems += [
            Problem((), line, "not installed") for line in inspection.to_install
        ]
    if inspection.problems or stores is None:
        return None
    return CheckedSweep(
        spec,
        stores,
        missing=missing,
        to_install=inspection.to_install,
        own_sets=preflight.describe_own_sets(spec),
        sizes=sizes,
        doubts=[
            *stage.notes,
            *describe_doubts(spec, spec.find_method(), configs, sizes),
            *_describe_mlflow(spec, stores),
        ],
        shortage=shortage,
        steps=stage.steps,
    )


def _check_stores(stores: SweepStores, inspection: Inspection) -> None:
    """Add the problems of stores with which a run could not start."""

    def refuse_unusable() -> None:
        with suppress(NoStoreError):  # a run will create it
            open_for_reading(stores.leaderboard).close()
        refuse_read_only(stores.leaderboard)

    inspection.run_check(("stores",), partial(refuse_unwritable, stores))
    inspection.run_check(("stores", "leaderboard"), refuse_unusable)
    inspection.run_check(("stores", "search"), partial(check_search_url, stores.search))
    inspection.run_check(("stores", "mlflow"), partial(check_uri, stores.mlflow))


def _describe_mlflow(spec: SweepSpec, stores: SweepStores) -> Iterator[str]:
    """Describe an MLflow store that another variable than ours names, or that does not answer."""
    uri = mask_url(stores.mlflow)
    if spec.stores.mlflow is None and mlflow_variable(stores.runs) == "MLFLOW_TRACKING_URI":
        yield f"MLFLOW_TRACKING_URI sets MLflow to {uri}; CSE_MLFLOW_URI or stores: overrides it"
    if is_server(stores.mlflow):
        try:
            urlopen(f"{stores.mlflow.rstrip('/')}/health", timeout=ANSWER_SECONDS).close()
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            yield f"{uri} does not answer ({reason}); the sweep runs without it"
