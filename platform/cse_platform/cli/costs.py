"""What a sweep would take: hours, GPU-hours and disk, from past trials of its kind or a probe."""

from collections.abc import Sequence
from math import fsum
from pathlib import Path
from shutil import disk_usage
from traceback import format_exc

from cse_methods.contract import MethodConfig, TrainingConfig
from cse_methods.data.corpora import Corpus
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.cli.checks import Checked
from cse_platform.cli.common import say
from cse_platform.errors import StoreError
from cse_platform.forecast.disk import disk_bytes, gigabytes
from cse_platform.forecast.pace import Pace
from cse_platform.forecast.time_left import span, time_left, with_ray
from cse_platform.leaderboard.query.trials.durations import past_trials
from cse_platform.leaderboard.store.opening import open_read_only
from cse_platform.render.formats import counted
from cse_platform.sweep import fit
from cse_platform.sweep.best_in_spec import best_references
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import nearest_existing


def disk_line(checked: Checked, at_once: int) -> str:
    """How much disk a sweep takes, at most."""
    spec, where = checked.spec, checked.where
    if spec.planned is None:
        one = disk_bytes(spec.backbone, trials=1, at_once=0)
        return (
            "unknown until the encoder is fetched" if one is None else f"{gigabytes(one)} a trial"
        )
    needed = disk_bytes(spec.backbone, trials=spec.planned, at_once=at_once)
    if needed is None:
        return "unknown until the encoder is fetched"
    kept = ""
    if spec.kept_trials is not None:
        left = disk_bytes(spec.backbone, trials=spec.kept_trials, at_once=0) or 0
        kept = f", then {gigabytes(left)} of the best {spec.kept} configurations"
    if "://" in where.models:
        return f"up to {gigabytes(needed)} in {where.models}{kept}"
    free = disk_usage(nearest_existing(Path(where.models))).free
    short = ", which is not enough" if needed > free else ""
    total = f"up to {gigabytes(needed)} of models and checkpoints{kept}"
    return f"{total}; {gigabytes(free)} are free{short}"


def time_line(
    checked: Checked, configs: Sequence[MethodConfig], at_once: int, *, probe: bool
) -> str:
    """How long the sweep takes, and from what that is known."""
    spec = checked.spec
    if checked.sizes is None:
        return f"{_trials(spec, at_once)}; how long is unknown until the corpus is here"
    work = _work(configs, len(checked.sizes.corpus.sentences))
    if durations := _past_seconds(checked, work):
        known = f"from {counted(len(durations), 'past trial')}"
        return _estimate(spec, durations, at_once, finished=True, known=known)
    config = configs[0]
    if not isinstance(config, TrainingConfig) or not _can_measure(checked):
        return f"{_trials(spec, at_once)}; how long is unknown: no such trial has been run"
    if not probe:
        return f"{_trials(spec, at_once)}; how long is unknown; --probe measures it"
    steps = round(work / config.batch_size)
    return _probed(spec, config, checked.sizes.corpus, steps=steps, at_once=at_once)


def _probed(
    spec: SweepSpec, config: TrainingConfig, corpus: Corpus, *, steps: int, at_once: int
) -> str:
    from cse_platform.forecast.measured import STEPS, measured_seconds  # imports torch

    say(f"{spec.sweep}: no such trial is known; measuring {STEPS} steps")
    method, threads = get_method(spec.method), spec.resources.slot.threads
    try:
        seconds = measured_seconds(method, config, corpus=corpus, steps=steps, threads=threads)
    except CseError as error:
        return f"{_trials(spec, at_once)}; a trial would fail: {error}"
    except Exception as error:  # of the method's own code
        from cse_platform.runner.failures import with_own_line

        told = with_own_line(error, format_exc(), method)
        return f"{_trials(spec, at_once)}; a trial would fail: {told}"
    known = f"from {STEPS} steps on this machine"
    return _estimate(spec, [seconds], at_once, finished=False, known=known)


def _trials(spec: SweepSpec, at_once: int) -> str:
    if spec.planned is None:
        return f"{counted(at_once, 'trial')} at once"
    return f"{counted(spec.planned, 'trial')}, {min(at_once, spec.planned)} at once"


def _estimate(
    spec: SweepSpec, durations: Sequence[float], at_once: int, *, finished: bool, known: str
) -> str:
    """Hours and GPU-hours; of one trial, where nobody can know how many there will be."""
    gpu = spec.resources.slot.gpu
    mean = fsum(durations) / len(durations)
    pace = Pace(mean, at_once=at_once, gpu=gpu)
    searched = pace.trials_within(spec.search.budget, count=spec.budget)
    pruned = "" if isinstance(spec.pruner, NoPruner) else ", less what the pruner stops"
    if searched is None:
        one = time_left(durations, trials=1, at_once=1, finished=finished)
        return f"{_trials(spec, at_once)}; {span(one)} each{pruned} ({known})"
    trials = max(searched + spec.confirming, 1)
    fitting = min(at_once, max(round(trials), 1))
    low, high = time_left(durations, trials=trials, at_once=fitting, finished=finished)
    hours = f", {_range_of_hours(low * fitting * gpu, high * fitting * gpu)}" if gpu else ""
    head = _trials(spec, at_once)
    if spec.budget is None or searched < spec.budget:
        head = f"about {counted(round(trials), 'trial')}, {fitting} at once"
    total = span(with_ray((low, high)))
    return f"{head}: {total}{hours}{pruned} ({known}, and the start of Ray)"


def _range_of_hours(low: float, high: float) -> str:
    """GPU-hours, from seconds."""
    ends = [f"{seconds / 3600:.2g}" for seconds in (low, high)]
    return f"{' to '.join(dict.fromkeys(ends))} GPU-hours"


def _work(configs: Sequence[MethodConfig], sentences: int) -> float:
    """Sentences that a trial goes through, on average."""
    found = [
        fit.steps_of(config, sentences=sentences) * getattr(config, "batch_size", 1)
        for config in configs
    ]
    return sum(found) / len(found)


def _past_seconds(checked: Checked, work: float) -> list[float]:
    """What past trials of the kind took, as if each had gone through as many sentences.

    What it took until the first dev point stays as it was: it is of no sentence.
    """
    spec = checked.spec
    gpu = spec.resources.slot.gpu > 0
    try:
        with open_read_only(checked.where.leaderboard) as store, store.session() as session:
            past = past_trials(session, method=spec.method, backbone=spec.backbone, gpu=gpu)
    except StoreError:
        return []  # none yet, or of another version
    done = [(trial, trial.steps * trial.values.get("batch_size", 1)) for trial in past]
    return [
        trial.to_first_point + (trial.seconds - trial.to_first_point) * work / sentences
        for trial, sentences in done
        if work and sentences
    ]


def _can_measure(checked: Checked) -> bool:
    """Whether a trial could start here as it is: with its device, encoders and teachers."""
    here = checked.shortage is None and checked.on_this_machine
    lacks = checked.missing or checked.to_install
    return here and not lacks and not best_references(checked.spec)
