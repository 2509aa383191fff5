"""Gather the results of other sweeps that a search uses: start points, trials, best models."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any

from cse_methods.config import MethodConfig
from cse_platform.errors import SweepRefusedError
from cse_platform.kept_models import NOT_ITS_MODEL, exists, holds_other_model, refuse_links
from cse_platform.leaderboard.past_searches import leading_configurations
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.trials import best_kept_trial, complete_trials, trial_of_model
from cse_platform.numbers import format_count, percent
from cse_platform.search.learning import pick_evenly_with_ends
from cse_platform.secrets import mask_url
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.tables import find_sweep
from cse_platform.sweep.identity import DevData, code_hash
from cse_platform.sweep.references import BestReference
from cse_platform.sweep.space.space import find_value
from cse_platform.sweep.spec import SweepSpec, best_references
from cse_platform.sweep.start_points import Leaders, leader_notes
from cse_platform.tracking.events import MODEL_DIGITS, LearnedTrial
from cse_platform.tracking.history import History
from cse_platform.values import group_by

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
    leaders: Leaders | None = None
    if "leaderboard" in spec.search.start_from:
        leaders = history.leaders
        if leaders is None:
            with leaderboard.session() as session:
                leading = leading_configurations(
                    session,
                    method=spec.method,
                    backbone=spec.backbone,
                    dev_identity=dev["identity"],
                    but=spec.sweep,
                    limit=MOST_LEADERS,
                )
            leaders = {
                f"number {rank} on {leader.backbone}, of {leader.sweep} "
                f"(dev {percent(leader.mean)}, {format_count(leader.seeds, 'seed')})": leader.values
                for rank, leader in enumerate(leading, start=1)
            }
    before = ((history.spec or {}).get("search") or {}).get("learn_from", ())
    if list(before) == list(spec.search.learn_from):
        return PriorResults(leaders, history.learned)
    learned: list[LearnedTrial] = []
    for name in spec.search.learn_from:
        with leaderboard.session() as session:
            sweep = find_sweep(session, name)
            complete = complete_trials(session, sweep)
        tried = group_by(complete, lambda trial: trial.configuration)
        if sweep.method != spec.method:
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} cannot learn from {name!r}, which trains {sweep.method}, "
                f"and not {spec.method}; leave it out of search.learn_from"
            )
        learned += _select_usable(name, list(tried.values()), spec, dev)
    return PriorResults(leaders, tuple(learned))


def _select_usable(
    sweep: str, tried: Sequence[Sequence[Trial]], spec: SweepSpec, dev: Mapping[str, str]
) -> list[LearnedTrial]:
    """Select configurations that lie in the space, evenly spread from the best to the worst."""
    values = [fmean(seed.best_value or 0.0 for seed in seeds) for seeds in tried]
    mean = fmean(values) if tried else 0.0
    spread = (pstdev(values, mean) if tried else 0.0) or 1.0
    usable, method = [], spec.find_method()
    codes: dict[type[MethodConfig], str | None] = {}
    best_first = sorted(zip(values, tried, strict=True), key=lambda pair: pair[0], reverse=True)
    for value, (trial, *_) in best_first:
        if (converted := _convert_to_space(trial, spec)) is None:
            continue
        assignment, config = converted
        if (kind := type(config)) not in codes:
            codes[kind] = code_hash(replace(method, config=kind))
        theirs, ours = trial.hyperparameters, config.hyperparameters()
        same = all(theirs.get(name) == ours.get(name) for name in theirs | ours)
        same_corpus = (trial.corpus_sha256 or trial.corpus) in (dev["corpus_sha256"], dev["corpus"])
        conditions = (trial.backbone, same_corpus, trial.dev_identity, trial.code)
        own_conditions = (spec.backbone, True, dev["identity"], codes[kind])
        learned = LearnedTrial(
            source=f"{sweep}#{trial.number}",
            values=assignment,
            value=value,
            score=(value - mean) / spread,
            alike=same and conditions == own_conditions,
        )
        usable.append(learned)
    if not usable:
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} has nothing to learn from {sweep!r}: none of its "
            f"{len(tried)} complete configurations is in the space and agrees with 'fixed'; "
            "leave it out of search.learn_from"
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
        for name in spec.space.order:
            if spec.space.is_active(name, assignment):
                assignment[name] = find_value(
                    spec.space, spec.method, name, tried.hyperparameters.get(name)
                )
        config = spec.config(assignment)
    except (LookupError, SweepRefusedError):
        return None
    values = config.hyperparameters()
    searched = [name for name in tried.searched if name not in spec.space]
    varied = any(tried.hyperparameters.get(name) != values.get(name) for name in searched)
    return None if varied else (assignment, config)


def best_folders(
    spec: SweepSpec, dev: DevData, leaderboard: Store, references: Sequence[BestReference]
) -> dict[str, str]:
    """Find the folder of each best encoder, by placeholder.

    Raises SweepRefusedError if one is missing or gone; BackboneError if it is unreachable, or
    behind a link.
    """
    folders = {}
    for reference in references:
        with leaderboard.session() as session:
            best = best_kept_trial(
                session,
                method=reference.method,
                backbone=reference.backbone,
                dev_identity=dev.columns["identity"],
            )
        if best is None or best.model is None:
            raise make_no_best_error(spec, reference)
        if holds_other_model(best.model, best.key):
            raise SweepRefusedError(
                f"sweep {spec.sweep!r} needs the best {reference.method} on "
                f"{reference.backbone}, but {mask_url(best.model)} "
                f"{NOT_ITS_MODEL.format(best.key[:MODEL_DIGITS])}; put the model back there, or "
                "train it again, for example in an earlier stage of the same file"
            )
        refuse_links(best.model)
        folders[reference.placeholder] = best.model
    refuse_lost_models(spec, folders, leaderboard)
    return folders


def make_no_best_error(spec: SweepSpec, reference: BestReference) -> SweepRefusedError:
    """Make the error that the leaderboard has no such encoder."""
    return SweepRefusedError(
        f"sweep {spec.sweep!r} needs the best {reference.method} on {reference.backbone}, but the "
        "leaderboard has none with these dev sets; train one first, for example in an earlier "
        "stage of the same file"
    )


def refuse_lost_models(spec: SweepSpec, folders: Mapping[str, str], leaderboard: Store) -> None:
    """Raise SweepRefusedError if one of these best encoders, given by placeholder, is gone.

    Raises BackboneError if one is unreachable.
    """
    for reference in best_references(spec):
        folder = folders.get(reference.placeholder)
        if folder is None or exists(folder):
            continue
        with leaderboard.session() as session:
            trial = trial_of_model(session, folder)
        whose, again = "", "train it again with its sweep"
        if trial is not None:
            whose = f", {trial.sweep}#{trial.number},"
            key = trial.key[:MODEL_DIGITS]
            again = f"cse-leaderboard reproduce {key} writes a folder that trains it again"
        raise SweepRefusedError(
            f"sweep {spec.sweep!r} needs the best {reference.method} on {reference.backbone}"
            f"{whose} in {mask_url(folder)}, which is not there; put the model back there "
            f"({again}), or run the file as another sweep: --set sweep=NEWNAME"
        )


def name_best(spec: SweepSpec, folders: Mapping[str, str], leaderboard: Store) -> list[str]:
    """Name the trials of these best encoders, given by placeholder, one line for each of a sweep.

    One that the leaderboard no longer has is named by its folder.
    """
    lines = []
    for reference in best_references(spec):
        if (folder := folders.get(reference.placeholder)) is not None:
            with leaderboard.session() as session:
                trial = trial_of_model(session, folder)
            named = mask_url(folder)
            if trial is not None:
                named = f"{trial.sweep}#{trial.number} (dev {percent(trial.best_value)})"
            lines.append(
                f"the best {reference.method} on {reference.backbone}, chosen at the first start, "
                f"is {named}"
            )
    return lines
