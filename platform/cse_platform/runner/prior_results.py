"""Decide what a start takes over: its own earlier trials, and what earlier stages have found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cse_platform.errors import SweepRefusedError
from cse_platform.numbers import format_count
from cse_platform.search.confirmation import chosen_trials
from cse_platform.sweep.checks import rule_problems, value_problems
from cse_platform.sweep.identity import CODE, GROWING, Identity, canonical_hash
from cse_platform.sweep.problems import format_value, joined_problems
from cse_platform.sweep.references import StageReference, find_stage_references
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import read_journal

_MAX_SHOWN = 3
"""The most changed modules that a message names."""


def hash_environment(spec: SweepSpec, identity: Identity, packages: Mapping[str, str]) -> str:
    """Hash what can make a trial fail: not its test sets, nor numbers of trials and seeds."""
    left_out: dict[str, Any] = dict.fromkeys(("stores", *GROWING), True)
    read = spec.model_dump(mode="json", exclude=left_out | {"resources": {"at_most"}})
    return canonical_hash([read, identity.content(), packages])


def find_retried(history: History, environment: str) -> list[TrialHistory]:
    """Find the trials that a start in this environment tries again."""
    return [
        trial
        for trial in history.trials.values()
        if trial.retry_requested or (trial.state == "FAIL" and trial.environment != environment)
    ]


def refuse_other_content(history: History, spec: SweepSpec, identity: Identity) -> None:
    """Raise SweepRefusedError if the sweep's trials would have different results now.

    Failed trials are ignored. The references of `spec` to best encoders are resolved.
    """
    kept = [trial for trial in history.trials.values() if trial.state != "FAIL"]
    if not kept:
        return
    others = (_explain_other_key(trial, spec, identity) for trial in kept)
    was, now = history.content, identity.content()
    code = (was.get(CODE) or {}).items() ^ now[CODE].items()
    modules = sorted({name for name, _ in code})
    more = f" and {len(modules) - _MAX_SHOWN} more" if len(modules) > _MAX_SHOWN else ""
    changes = ", ".join(
        f"the code changed in {', '.join(modules[:_MAX_SHOWN])}{more}"
        if name == CODE
        else f"the {name} changed"
        for name in now
        if was.get(name) != now[name]
    )
    if changed := changes or next(filter(None, others), None):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has {format_count(len(kept), 'trial')} that would have other "
            f"results now: {changed}; undo the change, or run it as another sweep: --set "
            "sweep=NEWNAME"
        )


def _explain_other_key(trial: TrialHistory, spec: SweepSpec, identity: Identity) -> str | None:
    """Explain why a trial's key would be different now; None if it would not be.

    The content is that of the last start.
    """
    try:
        config = spec.config_of(trial.values)
    except SweepRefusedError as error:
        return str(error)
    if identity.of_config(config).key(trial.seed) == trial.key:
        return None
    named = ", ".join([*config.encoders()[1:], *config.files(), *config.ingredients()])
    return f"one of {named} changed since trial {trial.number} read it"


@dataclass(frozen=True)
class StageValues:
    """What the earlier stages of a file have found for a sweep."""

    spec: SweepSpec
    """The sweep with the values filled in."""
    origins: dict[str, str]
    """The origin of each value, by setting."""
    best: dict[str, str]
    """The folders of best encoders that these stages have used, as in SweepStarted."""

    def notes(self) -> list[str]:
        """Describe the values, one line each."""
        fixed = self.spec.fixed
        return [
            f"{name}={format_value(fixed[name])} is {origin}"
            for name, origin in self.origins.items()
        ]


def fill_in_stage_values(spec: SweepSpec, history: History, stores: SweepStores) -> StageValues:
    """Fill in the values that earlier stages of the file have found.

    A stage that is not complete in this runs folder has found nothing; its settings keep the value
    with which this sweep was started, or else their reference.

    Raises:
        SweepRefusedError: if a stage has no best configuration, if its value is invalid here, or if
            this sweep was started with a different value.
    """
    started = (history.spec or {}).get("fixed") or {}
    fixed, origins, best = dict(spec.fixed), dict[str, str](), dict[str, str]()
    for name, wanted in find_stage_references(spec.fixed).items():
        journal = stores.journal_of(wanted.stage)
        past = History(event for _, event in (read_journal(journal) if journal.exists() else ()))
        if past.complete:
            trial = _find_best_of_stage(spec, wanted, past)
            best |= {f"{wanted.stage} {ref}": folder for ref, folder in past.best.items()}
            fixed[name] = trial.values[wanted.hyperparameter]
            origins[name] = f"{wanted}, trial {trial.number}"
            if name in started and started[name] != fixed[name]:
                raise SweepRefusedError(
                    f"sweep {spec.sweep!r} was started with fixed.{name} = "
                    f"{format_value(started[name])}, and now {wanted} is "
                    f"{format_value(fixed[name])} (trial {trial.number}); write {name}: "
                    f"{format_value(started[name])} under its 'fixed' to go on with that, or "
                    "another name after its 'sweep' to run it with the new value"
                )
        elif name in started:
            fixed[name], origins[name] = started[name], f"{wanted} when it was started"
    values = StageValues(spec.model_copy(update={"fixed": fixed}), origins, best)
    if origins and not find_stage_references(fixed):
        method = values.spec.find_method()
        rules = rule_problems(values.spec, method, known=())
        if problems := [*value_problems(values.spec, method), *rules]:
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} cannot be run, for {' and '.join(values.notes())}: "
                f"{joined_problems(problems)}"
            )
    return values


def _find_best_of_stage(spec: SweepSpec, wanted: StageReference, past: History) -> TrialHistory:
    """Find a trial of the best configuration of a complete stage."""
    chosen = chosen_trials(past, top=1)
    if not chosen:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {wanted}, but no trial there is complete; extend that "
            "search, or give the value under 'fixed'"
        )
    if wanted.hyperparameter not in chosen[0].values:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {wanted}, and it has no effect in the best configuration "
            f"there (trial {chosen[0].number}); give the value itself under 'fixed'"
        )
    return chosen[0]
