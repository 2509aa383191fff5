"""What a sweep is checked for before it starts, by a dry run and by a run alike."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from cse_methods.registry import get_method
from cse_platform.cli.common import say
from cse_platform.errors import NoStoreError, SweepRefusedError
from cse_platform.leaderboard.store.opening import open_read_only
from cse_platform.runner.notifying import refuse_unknown_services
from cse_platform.search.opening import refuse_unreachable
from cse_platform.secrets import mask_url
from cse_platform.sweep import fit, prerequisites
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores, refuse_unwritable, sweep_stores

ANSWER_SECONDS = 2
"""How long MLflow's server may take to answer."""


@dataclass(frozen=True)
class Checked:
    """A sweep that can start, or that could elsewhere."""

    spec: SweepSpec
    """With its data source written out."""
    where: SweepStores
    missing: list[str]
    """What must be fetched first, a line each."""
    own_sets: list[str]
    """What was found in the lab's own dev sets, a line each."""
    sizes: fit.Sizes | None
    """None while the corpus has to be fetched."""
    doubts: list[str]
    """What is allowed and does not do what it seems to."""
    on_this_machine: bool
    """Rather than on a Ray cluster that was there before."""
    shortage: str | None
    """Why a trial does not fit on this machine; None on a cluster."""


def check_stages(
    stages: Sequence[SweepSpec], *, runs: Path, address: str | None, offline: bool
) -> list[Checked]:
    """Check every stage of a file as a run needs it; CseError for the first that cannot run."""
    return [_check(stage, runs=runs, address=address, offline=offline) for stage in stages]


def _check(stage: SweepSpec, *, runs: Path, address: str | None, offline: bool) -> Checked:
    say(f"{stage.sweep}: checking data, encoders and stores")
    spec = prerequisites.with_data_source(stage)
    where = sweep_stores(spec, runs=runs)
    refuse_unknown_services(spec.notify)
    method = get_method(spec.method)
    missing = prerequisites.missing_downloads(spec, method)
    if missing and offline:
        listed = "; ".join(missing)
        raise SweepRefusedError(f"sweep {spec.sweep!r} must fetch, and is offline: {listed}")
    sizes = fit.sizes_of(spec, method)
    found = [*fit.doubts(spec, method, sizes), *_check_stores(where)]
    here = address is None
    shortage = fit.shortage(spec.resources.slot) if here else None
    own_sets = prerequisites.own_sets(spec)
    return Checked(spec, where, missing, own_sets, sizes, found, here, shortage)


def _check_stores(where: SweepStores) -> list[str]:
    """Refuse stores that a run could not begin with; doubts about one that it can do without."""
    refuse_unwritable(where)
    with suppress(NoStoreError):  # a run creates it
        open_read_only(where.leaderboard).close()
    refuse_unreachable(where.search)
    if where.mlflow.startswith("http"):
        try:
            urlopen(f"{where.mlflow.rstrip('/')}/health", timeout=ANSWER_SECONDS).close()
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            return [f"{mask_url(where.mlflow)} does not answer ({reason}); a run goes on without"]
    return []
