"""Decide what a start reuses: the sweep's own earlier trials, and results of earlier sweeps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from pydantic import ValidationError

from cse_methods.contract import MethodConfig
from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.searches import (
    by_configuration,
    leading_configurations,
    measured_trials,
)
from cse_platform.render.formats import format_count, percent
from cse_platform.runner.confirmation import chosen_trials
from cse_platform.search.learning import pick_evenly_with_ends
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep
from cse_platform.sweep.checks import rule_problems, value_problems
from cse_platform.sweep.identity import CODE, GROWING, Identity, canonical_hash
from cse_platform.sweep.problems import format_value, joined_problems
from cse_platform.sweep.references import StageReference, find_stage_references
from cse_platform.sweep.space.space import find_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import Leaders, leader_notes
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.events import LearnedTrial
from cse_platform.tracking.history import History, TrialHistory
from cse_platform.tracking.journal import read_journal

_MAX_SHOWN = 3
"""The most changed modules that a message names."""


def environment_hash(
    asked: Mapping[str, Any], content: Mapping[str, Any], packages: Mapping[str, str]
) -> str:
    """Hash everything that can make a trial fail: the file, code, data and packages.

    `asked` is the sweep as JSON; its numbers of trials and seeds and its test sets are left out,
    because they make no trial fail.
    """
    spec = {name: value for name, value in asked.items() if name not in GROWING}
    return canonical_hash([spec, content, packages])


def refuse_other_content(
    history: History, spec: SweepSpec, identity: Identity, *, unknown_code: bool
) -> None:
    """Raise SweepRefusedError if the sweep's trials would have different results now.

    Failed trials are ignored. The references of `spec` to best encoders are resolved.
    `unknown_code` accepts trials without a hash of their code, whose source could not be read.
    """
    kept = [trial for trial in history.trials.values() if trial.state != "FAIL"]
    if not kept:
        return
    known = bool(history.content)
    changed = _describe_changes(history.content, identity.content()) if known else None
    others = (_explain_other_key(trial, spec, identity, known=known) for trial in kept)
    if changed := changed or next(filter(None, others), None):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has {format_count(len(kept), 'trial')} that would not come out "
            f"the same: {changed}; undo that, or run it as another sweep: --set sweep=NEWNAME"
        )
    if identity.code and not unknown_code and not all(trial.code for trial in kept):
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has trials whose code is unknown, as their source could not be "
            "read; --set sweep=NEWNAME runs them again"
        )


def list_trials_to_retry(history: History, environment: str) -> list[TrialHistory]:
    """List trials that failed in another environment or that a person wants to be retried."""
    return [
        trial
        for trial in history.trials.values()
        if not trial.averages  # averages are made again whenever they are missing
        if trial.retry_requested or (trial.state == "FAIL" and trial.environment != environment)
    ]


def _describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe what has changed since the last start; None if nothing has."""
    names = [name for name in now if before.get(name) != now[name]]
    if not names:
        return None
    was, new = before.get(CODE) or {}, now[CODE]
    modules = sorted(n for n in was.keys() | new.keys() if was.get(n) != new.get(n))
    more = f" and {len(modules) - _MAX_SHOWN} more" if len(modules) > _MAX_SHOWN else ""
    code = f"the code changed in {', '.join(modules[:_MAX_SHOWN])}{more}"
    return ", ".join(code if name == CODE else f"the {name} changed" for name in names)


def _explain_other_key(
    trial: TrialHistory, spec: SweepSpec, identity: Identity, *, known: bool
) -> str | None:
    """Explain why a trial's key would be different now; None if it would not be.

    `known` says that the content is recorded and has not changed. The key of an average depends
    only on its trials.
    """
    if trial.averages:
        return None
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
    """Whether a trial would have the same key now; unknown code counts as the same."""
    now = identity.of(config)
    if trial.code is None:
        now = now.with_unknown_code()
    return now.key(trial.seed) == trial.key


MOST_LEADERS = 3
"""The number of configurations that `leaderboard` in `start_from` stands for."""
MOST_LEARNED = 50
"""The most configurations of each sweep that the sampler learns from."""


@dataclass(frozen=True)
class PriorResults:
    """Results of earlier sweeps that a search uses."""

    leaders: Leaders | None = None
    """The configurations behind `start_from: [leaderboard]`; None if the file does not name it."""
    learned: tuple[LearnedTrial, ...] = ()
    """Trials of the sweeps in `learn_from`, from which the sampler learns."""

    def notes(self, spec: SweepSpec) -> list[str]:
        """Describe these results, one line each."""
        sweeps = Counter(trial.source.rpartition("#")[0] for trial in self.learned)
        alike = Counter(trial.source.rpartition("#")[0] for trial in self.learned if trial.alike)
        learned = [
            f"learn_from: {format_count(count, 'configuration')} of {name}, {alike[name]} of them "
            "under the same conditions as here"
            for name, count in sweeps.items()
        ]
        return [*leader_notes(spec, self.leaders), *learned]


def gather_prior_results(
    history: History, spec: SweepSpec, leaderboard: Store, *, dev: Mapping[str, str]
) -> PriorResults:
    """Gather the earlier results that a search uses; after the first start, from its journal.

    The leaderboard and other sweeps change while this one runs, so a later start does not look
    again, unless the file asks for something else now. `dev` is as in TrialStarted.

    Raises:
        NotFoundError: if `learn_from` names an unknown sweep; the message suggests the nearest.
        SweepRefusedError: if such a sweep trains another method, or none of its configurations can
            be used.
    """
    return PriorResults(
        leaders=_find_leaders(history, spec, leaderboard, dev_identity=dev["identity"]),
        learned=_find_learned(history, spec, leaderboard, dev),
    )


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
        return [f"{name}={format_value(fixed[name])} is {at}" for name, at in self.origins.items()]


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
            best |= {f"{wanted.stage} {found}": folder for found, folder in past.best.items()}
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
        _refuse_values(values)
    return values


def _find_best_of_stage(spec: SweepSpec, wanted: StageReference, past: History) -> TrialHistory:
    """Find a trial of the best configuration of a complete stage, by its own rule."""
    try:
        chosen = chosen_trials(past, SweepSpec.model_validate(past.spec), top=1)
    except ValidationError:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {wanted}, which another version has run, and its file can "
            "no longer be read; run that stage again under another name"
        ) from None
    if not chosen:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {wanted}, and no complete configuration there keeps its "
            "constraints; let it search on, or give the value itself under 'fixed'"
        )
    if wanted.hyperparameter not in chosen[0].values:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} takes {wanted}, and it has no effect in the best configuration "
            f"there (trial {chosen[0].number}); give the value itself under 'fixed'"
        )
    return chosen[0]


def _refuse_values(values: StageValues) -> None:
    """Raise SweepRefusedError if values found by earlier stages are invalid in this sweep."""
    spec, method = values.spec, values.spec.find_method()
    problems = [*value_problems(spec, method), *rule_problems(spec, method, known=())]
    if problems:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} cannot be run, for {' and '.join(values.notes())}: "
            f"{joined_problems(problems)}"
        )


def _find_leaders(
    history: History, spec: SweepSpec, leaderboard: Store, *, dev_identity: str
) -> Leaders | None:
    if "leaderboard" not in spec.search.start_from:
        return None
    if history.leaders is not None:
        return history.leaders
    with leaderboard.session() as session:
        leading = leading_configurations(
            session,
            method=spec.method,
            backbone=spec.backbone,
            dev_identity=dev_identity,
            but=spec.sweep,
            limit=MOST_LEADERS,
        )
    leaders: dict[str, dict[str, Any]] = {}
    for rank, leader in enumerate(leading, start=1):
        said = f"dev {percent(leader.mean)}, {format_count(leader.seeds, 'seed')}"
        name = f"number {rank} on {leader.backbone}, of {leader.sweep} ({said})"
        leaders[name] = leader.values
    return leaders


def _find_learned(
    history: History, spec: SweepSpec, leaderboard: Store, dev: Mapping[str, str]
) -> tuple[LearnedTrial, ...]:
    before = ((history.spec or {}).get("search") or {}).get("learn_from", ())
    if list(before) == list(spec.search.learn_from):
        return history.learned
    learned: list[LearnedTrial] = []
    for name in spec.search.learn_from:
        with leaderboard.session() as session:
            sweep = find_sweep(session, name)
            tried = by_configuration(measured_trials(session, sweep))
        if sweep.method != spec.method:
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} cannot learn from {name!r}, which trains {sweep.method}, "
                f"and not {spec.method}; leave it out of search.learn_from"
            )
        learned += _select_usable(name, list(tried.values()), spec, dev)
    return tuple(learned)


def _select_usable(
    sweep: str, tried: Sequence[Sequence[Trial]], spec: SweepSpec, dev: Mapping[str, str]
) -> list[LearnedTrial]:
    """Select configurations that lie in the space, evenly spread from the best to the worst."""
    values = [fmean(seed.value or 0.0 for seed in seeds) for seeds in tried]
    mean = fmean(values) if tried else 0.0
    spread = (pstdev(values, mean) if tried else 0.0) or 1.0
    usable = []
    best_first = sorted(zip(values, tried, strict=True), key=lambda each: each[0], reverse=True)
    for value, (trial, *_) in best_first:
        config = _convert_to_space(trial, spec)
        if config is not None:
            assignment, here = config
            same = (
                trial.hyperparameters == here.hyperparameters() and trial.backbone == spec.backbone
            )
            comparable = (trial.corpus, trial.dev_identity) == (dev["corpus"], dev["identity"])
            usable.append(
                LearnedTrial(
                    source=f"{sweep}#{trial.number}",
                    values=assignment,
                    value=value,
                    score=(value - mean) / spread,
                    alike=same and comparable,
                )
            )
    if not usable:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has nothing to learn from {sweep!r}: none of its {len(tried)} "
            "complete configurations lies in the space and agrees with 'fixed'; leave it out of "
            "search.learn_from"
        )
    return pick_evenly_with_ends(usable, min(len(usable), MOST_LEARNED))


def _convert_to_space(tried: Trial, spec: SweepSpec) -> tuple[dict[str, Any], MethodConfig] | None:
    """Convert a configuration to this space; None if that is impossible.

    Its searched settings must lie in the space, or equal the value that is fixed here. Settings
    that both sweeps fix may differ; the trial is then not comparable, and only the order of the
    other sweep's scores counts.
    """
    assignment: dict[str, Any] = {}
    try:
        for name in spec.space.ordered():
            if spec.space.is_active(name, assignment):
                assignment[name] = find_value(
                    spec.space, spec.method, name, tried.hyperparameters[name]
                )
        config = spec.config(assignment)
    except (LookupError, SweepRefusedError):
        return None
    here = config.hyperparameters()
    searched = [name for name in tried.searched if name not in spec.space]
    varied = any(tried.hyperparameters.get(name) != here.get(name) for name in searched)
    return None if varied else (assignment, config)
