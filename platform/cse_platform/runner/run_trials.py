"""Runs the trials of one sweep on Ray, until none is left or the sweep gives up."""

import logging
from _thread import interrupt_main
from collections.abc import Callable
from contextlib import suppress

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.cluster.checks import NodeChecks
from cse_platform.runner.cluster.shipping import shipment_of
from cse_platform.runner.cluster.slots import capacity, refuse_too_small
from cse_platform.runner.planning.planner import Planner
from cse_platform.runner.planning.requests import Requests
from cse_platform.runner.ray_cluster import join_cluster, run_tuner
from cse_platform.runner.ray_process import OwnRayLost, is_own, stop_own
from cse_platform.runner.results import Results
from cse_platform.runner.sharing import share_devices
from cse_platform.runner.state import SweepState
from cse_platform.runner.tune import Hooks
from cse_platform.signals import interrupts_deferred
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores

MAX_LOST = 3
"""How often a Ray of our own may die in one start of a sweep."""

_log = logging.getLogger(__name__)


def run_trials(
    state: SweepState, requests: Requests, places: SweepStores, *, address: str | None, ship: bool
) -> bool:
    """Run the planner's trials; a Ray of our own that dies is started again.

    Returns False on Ctrl-C, which leaves something to do. SweepRefusedError if the cluster lacks
    what a trial asks for, if our own Ray dies again and again, or if all trials fail alike.
    """
    state.finished = False
    lost = 0
    while lost < MAX_LOST:
        with suppress(OwnRayLost):
            _run_on_ray(state, requests, places, address=address, ship=ship)
            break
        lost += 1
        if lost < MAX_LOST:
            _log.warning("Ray on this machine has died; it is started again")
        stop_own()
        state.cut_off()
    else:
        raise SweepRefusedError(
            f"Ray on this machine has died {MAX_LOST} times; the same command goes on from here"
        )
    if state.gave_up is not None:
        raise SweepRefusedError(_explain_giving_up(state.spec, state.gave_up))
    return state.finished and not state.live


def _run_on_ray(
    state: SweepState, requests: Requests, places: SweepStores, *, address: str | None, ship: bool
) -> None:
    shipment = shipment_of([state.spec]) if ship and address is not None else None
    with interrupts_deferred():
        join_cluster(address, shipment)
    state.ray_is_up = True
    refuse_too_small(state.slot)
    state.lease.on_lost(interrupt_main)  # as by Ctrl-C, which stops the trials
    if state.nodes is None and not is_own():  # a Ray of our own runs on this machine alone
        packages = shipment.packages if shipment else {}
        state.nodes = NodeChecks(
            state.spec, state.method, storage=places.checkpoints, packages=packages
        )
        state.nodes.wait()
    share_devices(state)
    hooks = Hooks(
        Planner(state, capacity=_make_capacity(state)),
        Results(state, checkpoints=places.checkpoints, models=places.models, errors=places.errors),
        requests,
    )
    try:
        run_tuner(state.spec, state.slot, places, hooks)
    finally:
        if hooks.demand is not None:
            hooks.demand.end()
    if hooks.broken is not None:
        raise hooks.broken


def _make_capacity(state: SweepState) -> Callable[[], int]:
    """Make a function that counts the trials that run at once; a Ray of our own is asked once.

    If its GCS died during a question, Ray would wait for a minute, and then end this process.
    """
    if is_own():
        slots = capacity(state.slot)
        return lambda: slots
    return lambda: capacity(state.slot, among=state.checked)


def _explain_giving_up(spec: SweepSpec, cause: str) -> str:
    return (
        f"sweep {spec.sweep!r} has stopped, because every trial so far has failed alike: {cause}; "
        "the same command tries them again once the file, the code, the data or a package has "
        f"changed, or after cse-sweep retry {spec.sweep}; --set search.give_up_after=N goes on "
        f"until N have failed (now {spec.search.give_up_after})"
    )
