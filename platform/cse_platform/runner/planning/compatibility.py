"""Checks whether a sweep's trials would still come out the same, and which it tries again."""

from collections.abc import Mapping
from typing import Any

from cse_methods.contract import MethodConfig
from cse_platform.errors import SweepRefusedError
from cse_platform.render.formats import counted
from cse_platform.sweep.identity import CODE, GROWING, Identity, canonical_hash
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.history import History, TrialHistory

_MAX_SHOWN = 3
"""Changed modules that a message names."""


def environment_hash(
    asked: Mapping[str, Any], content: Mapping[str, Any], packages: Mapping[str, str]
) -> str:
    """Hash of what a trial's failure can come from: the file, code, data and packages.

    `asked` is the sweep as JSON; how many trials, seeds and test sets it has makes no trial fail.
    """
    spec = {name: value for name, value in asked.items() if name not in GROWING}
    return canonical_hash([spec, content, packages])


def refuse_other_content(
    history: History, spec: SweepSpec, identity: Identity, *, unknown_code: bool
) -> None:
    """Raise SweepRefusedError if trials of the sweep would not come out the same now.

    Trials that failed have no numbers. `spec` has its references to best encoders resolved.
    `unknown_code` accepts trials of a version that did not record their code.
    """
    kept = [trial for trial in history.trials.values() if trial.state != "FAIL"]
    if not kept:
        return
    known = bool(history.content)
    changed = _describe_changes(history.content, identity.content()) if known else None
    others = (_explain_other_key(trial, spec, identity, known=known) for trial in kept)
    if changed := changed or next(filter(None, others), None):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has {counted(len(kept), 'trial')} that would not come out the "
            f"same: {changed}; undo that, or run it as another sweep: --set sweep=NEWNAME"
        )
    if identity.code and not unknown_code and not all(trial.code for trial in kept):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has trials whose code is unknown: an older version ran them; "
            "--reuse-unknown goes on with them as if they were of this code, and "
            "--set sweep=NEWNAME runs them again"
        )


def to_try_again(history: History, environment: str) -> list[TrialHistory]:
    """Trials that failed in another environment, and those that a person wants tried again."""
    return [
        trial
        for trial in history.trials.values()
        if trial.asked_again or (trial.state == "FAIL" and trial.environment != environment)
    ]


def _describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe what has changed since the last start; None if nothing has."""
    names = [name for name in now if before.get(name) != now[name]]
    if not names:
        return None
    code = _describe_code_changes(before.get(CODE) or {}, now[CODE])
    return ", ".join(code if name == CODE else f"the {name} changed" for name in names)


def _describe_code_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    modules = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
    more = f" and {len(modules) - _MAX_SHOWN} more" if len(modules) > _MAX_SHOWN else ""
    return f"the code changed in {', '.join(modules[:_MAX_SHOWN])}{more}"


def _explain_other_key(
    trial: TrialHistory, spec: SweepSpec, identity: Identity, *, known: bool
) -> str | None:
    """Explain why a trial's key is another one now; `known` says that the content is the same."""
    try:
        config = spec.config_of(trial.values)
    except SweepRefusedError as error:
        return str(error)
    if same_trial(trial, config, identity):
        return None
    named = ", ".join([*config.encoders()[1:], *config.files()])
    if known and named:
        return f"one of {named} changed since trial {trial.number} read it"
    return "the revision of the method, the weights, the corpus or the dev data changed"


def same_trial(trial: TrialHistory, config: MethodConfig, identity: Identity) -> bool:
    """Whether a trial would have the same key now."""
    now = identity.of(config)
    if trial.code is None:
        now = now.with_unknown_code()
    return now.key(trial.seed) == trial.key
