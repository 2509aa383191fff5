"""What the journal says of a trial that begins."""

from typing import Any

from cse_methods.contract import MethodConfig
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.state import SweepState
from cse_platform.sweep.identity import ConfigurationIdentity
from cse_platform.tracking.events import Role, TrialStarted
from cse_platform.tracking.trial_history import TrialHistory


def start_of(
    state: SweepState,
    config: MethodConfig,
    identity: ConfigurationIdentity,
    role: Role,
    seed: int,
    searched: tuple[str, ...],
    search_number: int | None = None,
) -> TrialStarted:
    """The start of a new trial, under the next number."""
    return TrialStarted(
        trial=identity.key(seed),
        number=len(state.history.trials),
        role=role,
        search_number=search_number,
        seed=seed,
        configuration=identity.hash,
        code=identity.code,
        values=config.hyperparameters(),
        searched=searched,
        **facts_of_sweep(state),
    )


def facts_of_sweep(state: SweepState) -> dict[str, Any]:
    """What the first event of every trial says of its sweep."""
    spec = state.spec
    return {
        "sweep": spec.sweep,
        "method": spec.method,
        "revision": state.method.revision,
        "backbone": spec.backbone,
        "dev": state.identity.dev,
    }


def accepted_config(state: SweepState, trial: TrialHistory) -> MethodConfig | None:
    """The configuration of a trial; None if the method refuses it by now."""
    try:
        return state.spec.config_of(trial.values)
    except SweepRefusedError:
        return None
