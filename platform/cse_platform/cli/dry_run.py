"""`cse-sweep FILE --dry-run`: all that a run opens is opened, and what it would take is told."""

from collections.abc import Sequence
from pathlib import Path
from shutil import disk_usage
from traceback import format_exc

import click

from cse_methods.contract import MethodConfig, TrainingConfig
from cse_methods.errors import CseError
from cse_methods.registry import get_method
from cse_platform.cli.checks import Checked, check_stages
from cse_platform.cli.common import say
from cse_platform.errors import StoreError
from cse_platform.forecast.disk import disk_bytes, gigabytes
from cse_platform.forecast.time_left import span, time_left
from cse_platform.leaderboard.query.trials.durations import past_trials
from cse_platform.leaderboard.store.opening import open_read_only, open_store
from cse_platform.search.proposals import preview
from cse_platform.sweep import fit, prerequisites
from cse_platform.sweep.changes import refuse_changes
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.reading.problems import format_value
from cse_platform.sweep.space.start_points import start_points
from cse_platform.sweep.spec import SweepFile, SweepSpec, best_references, with_best
from cse_platform.sweep.stores import SweepStores, nearest_existing
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

SAMPLES = 10
"""Configurations that a dry run shows."""


def dry_run(sweeps: SweepFile, *, runs: Path, address: str | None, offline: bool) -> None:
    """Check data, encoders and stores of each stage; print ten configurations and the budget."""
    stages = check_stages(sweeps.stages, runs=runs, address=address, offline=offline)
    machine = _capacity(address, stages)
    for place, checked in enumerate(stages):
        _check_changes(checked)
        _check_best(checked.spec, [one.spec for one in stages[:place]], checked.where)
        _print_plan(checked, at_once=machine[place])


def _capacity(address: str | None, stages: Sequence[Checked]) -> list[int]:
    """How many trials of each stage run at the same time; refused where a cluster is too small."""
    if all(checked.on_this_machine for checked in stages):
        return [max(fit.at_once(checked.spec.resources.slot), 1) for checked in stages]
    from cse_platform.runner.processes.cluster import capacity, join_cluster, refuse_too_small

    say("asking the Ray cluster")
    join_cluster(address)
    for checked in stages:
        refuse_too_small(checked.spec.resources.slot)
    return [capacity(checked.spec.resources.slot) for checked in stages]


def _check_changes(checked: Checked) -> None:
    """Refuse a sweep of another file or content than the one of its name."""
    spec, where = checked.spec, checked.where
    if not where.journal.exists():
        return
    history = History(event for _, event in read_journal(where.journal))
    refuse_changes(history.spec, spec.model_dump(mode="json"))
    if checked.missing or not history.trials:
        return
    from cse_platform.runner.planning.content import refuse_other_content

    references = best_references(spec)
    if not all(one.placeholder in history.best for one in references):
        return
    resolved = with_best(spec, {one: history.best[one.placeholder] for one in references})
    identity = Identity(resolved, get_method(spec.method), DevData(spec))
    refuse_other_content(history, resolved, identity, unknown_code=True)


def _check_best(spec: SweepSpec, earlier: list[SweepSpec], where: SweepStores) -> None:
    wanted = prerequisites.references_to_resolve(spec, earlier)
    if not wanted:
        return
    from cse_platform.runner.launch import best_folders

    with open_store(where.leaderboard, create=False) as leaderboard:
        best_folders(spec, DevData(spec), leaderboard, wanted)


def _print_plan(checked: Checked, *, at_once: int) -> None:
    spec, method = checked.spec, get_method(checked.spec.method)
    points = start_points(spec, method)
    drawn = preview(spec, start_points=points, count=min(SAMPLES, spec.budget))
    configs = [spec.config(assignment) for assignment in drawn]
    click.echo(_head(spec))
    for assignment in drawn:
        settings = " ".join(f"{name}={format_value(value)}" for name, value in assignment.items())
        click.echo(f"  {settings or 'nothing is searched'}")
    for line in checked.own_sets:
        click.echo(f"  {line}")
    for line in checked.missing:
        click.echo(f"  to fetch: {line}")
    confirm = spec.seeds.confirm
    further = f", then {' '.join(map(str, confirm.seeds))}" if confirm else ""
    click.echo(f"  seeds: {spec.seeds.search} in the search{further}")
    if sizes := checked.sizes:
        corpus = sizes.corpus
        what = f"rows of {len(corpus.columns)} sentences" if corpus.columns else "sentences"
        click.echo(f"  corpus: {corpus.name}, {len(corpus.sentences):,} {what}")
        click.echo(f"  steps: {_range(sizes.fewest_steps, sizes.most_steps)} a trial")
    click.echo(f"  disk: {_disk(checked, at_once)}")
    for line in checked.doubts:
        click.echo(f"  note: {line}")
    if checked.shortage:
        click.echo(f"  not here: {checked.shortage}")
    if spec.resources.measured:
        click.echo("  resources: measured at the start; below, a trial has a core, or a whole GPU")
    click.echo(f"  time: {_time(checked, configs, at_once)}")


def _head(spec: SweepSpec) -> str:
    confirm, asked = spec.seeds.confirm, spec.evaluate
    further = f" and {len(confirm.seeds)} seeds of the best {confirm.top}" if confirm else ""
    tested = f"; test sets for the best {asked.top}: {' '.join(asked.tasks)}" if asked else ""
    head = f"{spec.sweep}: {spec.method} on {spec.backbone}, {spec.budget} trials"
    return head + further + tested


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _disk(checked: Checked, at_once: int) -> str:
    spec, where = checked.spec, checked.where
    needed = disk_bytes(spec.backbone, trials=spec.planned, at_once=at_once)
    if needed is None:
        return "unknown until the encoder is fetched"
    if "://" in where.models:
        return f"up to {gigabytes(needed)} in {where.models}"
    free = disk_usage(nearest_existing(Path(where.models))).free
    short = ", which is not enough" if needed > free else ""
    return f"up to {gigabytes(needed)} of models and checkpoints; {gigabytes(free)} are free{short}"


def _time(checked: Checked, configs: Sequence[MethodConfig], at_once: int) -> str:
    """How long the sweep takes, and from what that is known."""
    spec = checked.spec
    trials = f"{spec.planned} trials, {min(at_once, spec.planned)} at once"
    if checked.sizes is None:
        return f"{trials}; how long is unknown until the corpus is here"
    work = _work(configs, len(checked.sizes.corpus.sentences))
    pruned = "" if isinstance(spec.pruner, NoPruner) else ", less what the pruner stops"
    if durations := _past_seconds(checked, work):
        interval = time_left(durations, trials=spec.planned, at_once=min(at_once, spec.planned))
        return f"{trials}: {span(interval)}{pruned} (from {len(durations)} past trials)"
    config = configs[0]
    if not isinstance(config, TrainingConfig) or not _can_measure(checked):
        return f"{trials}; how long is unknown: no such trial has been run"
    from cse_platform.forecast.measured import STEPS, measured_seconds

    say(f"{spec.sweep}: no such trial is known; measuring {STEPS} steps")
    try:
        seconds = measured_seconds(
            get_method(spec.method),
            config,
            corpus=checked.sizes.corpus,
            steps=round(work / config.batch_size),
            threads=spec.resources.slot.threads,
        )
    except CseError as error:
        return f"{trials}; a trial would fail: {error}"
    except Exception as error:  # of the method's own code
        from cse_platform.runner.failures import with_own_line

        told = with_own_line(error, format_exc(), get_method(spec.method))
        return f"{trials}; a trial would fail: {told}"
    interval = time_left(
        [seconds], trials=spec.planned, at_once=min(at_once, spec.planned), finished=False
    )
    return f"{trials}: {span(interval)}{pruned} (from {STEPS} steps on this machine)"


def _work(configs: Sequence[MethodConfig], sentences: int) -> float:
    """Sentences that a trial goes through, on average."""
    found = [
        fit.steps_of(config, sentences=sentences) * getattr(config, "batch_size", 1)
        for config in configs
    ]
    return sum(found) / len(found)


def _past_seconds(checked: Checked, work: float) -> list[float]:
    """What past trials of the kind took, as if each had gone through as many sentences."""
    spec = checked.spec
    gpu = spec.resources.slot.gpu > 0
    try:
        with open_read_only(checked.where.leaderboard) as store, store.session() as session:
            past = past_trials(session, method=spec.method, backbone=spec.backbone, gpu=gpu)
    except StoreError:
        return []  # none yet, or of another version
    done = [(one.seconds, one.steps * one.values.get("batch_size", 1)) for one in past]
    return [seconds * work / sentences for seconds, sentences in done if work and sentences]


def _can_measure(checked: Checked) -> bool:
    """Whether a trial could start here as it is: with its device, encoders and teachers."""
    here = checked.shortage is None and checked.on_this_machine
    return here and not checked.missing and not best_references(checked.spec)
