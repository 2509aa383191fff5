"""`cse-sweep FILE --dry-run`: all that a run opens is opened, and what it would take is told."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cse_methods.errors import DataError
from cse_methods.registry import get_method
from cse_platform.cli.checks import Checked, check_stages
from cse_platform.cli.common import say
from cse_platform.cli.costs import disk_line, time_line
from cse_platform.errors import NoStoreError, SweepRefusedError
from cse_platform.leaderboard.store.opening import open_read_only, open_store
from cse_platform.render.formats import counted
from cse_platform.search.proposing.proposals import preview
from cse_platform.sweep import fit, prerequisites
from cse_platform.sweep.best_in_spec import best_references, with_best
from cse_platform.sweep.best_of import values_to_find
from cse_platform.sweep.changes import refuse_changes
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.reading.loader import DraftFile
from cse_platform.sweep.reading.problems import format_value
from cse_platform.sweep.space.start_points import start_points
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal

if TYPE_CHECKING:
    from cse_platform.runner.planning.evidence import Evidence

SAMPLES = 10
"""Configurations that a dry run shows."""


def dry_run(
    draft: DraftFile, *, runs: Path, address: str | None, offline: bool, probe: bool
) -> None:
    """Check data, encoders and stores of each stage; print ten configurations and the costs.

    `probe` trains a few steps where no past trial says how long one takes.
    """
    stages = check_stages(draft, runs=runs, address=address, offline=offline, starts=False)
    machine = _capacity(address, stages)
    for place, one in enumerate(stages):
        checked, values = _with_found_values(one)
        _check_changes(checked)
        earlier = [one.spec for one in stages[:place]]
        _check_best(checked.spec, earlier, checked.where)
        _print_plan(checked, values, earlier, at_once=machine[place], probe=probe)


def _capacity(address: str | None, stages: Sequence[Checked]) -> list[int]:
    """How many trials of each stage run at the same time; refused where a cluster is too small."""
    if all(checked.on_this_machine for checked in stages):
        return [max(fit.at_once(checked.spec.resources.slot), 1) for checked in stages]
    from cse_platform.runner.nodes.slots import capacity, refuse_too_small
    from cse_platform.runner.processes.cluster import join_cluster

    say("asking the Ray cluster")
    join_cluster(address)
    for checked in stages:
        refuse_too_small(checked.spec.resources.slot)
    return [capacity(checked.spec.resources.slot) for checked in stages]


def _with_found_values(checked: Checked) -> tuple[Checked, list[str]]:
    """The stage with what earlier ones have found, and a line for each value that it takes."""
    if not values_to_find(checked.spec.fixed):
        return checked, []
    from cse_platform.runner.planning.evidence import value_notes, with_found_values

    spec, origins = with_found_values(checked.spec, _past(checked.where), checked.where)
    awaited = values_to_find(spec.fixed)
    lines = [f"{name}: {one}, which comes later" for name, one in awaited.items()]
    return replace(checked, spec=spec), [*value_notes(spec, origins), *lines]


def _past(where: SweepStores) -> History:
    """What the journal of a sweep says; nothing of one that never ran here."""
    there = where.journal.exists()
    return History(event for _, event in read_journal(where.journal)) if there else History()


def _check_changes(checked: Checked) -> None:
    """Refuse a sweep of another file or content than the one of its name."""
    spec, history = checked.spec, _past(checked.where)
    refuse_changes(history.spec, spec.model_dump(mode="json"))
    if checked.missing or checked.to_install or not history.trials:
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


def _print_plan(
    checked: Checked,
    values: Sequence[str],
    earlier: Sequence[SweepSpec],
    *,
    at_once: int,
    probe: bool,
) -> None:
    spec, method = checked.spec, get_method(checked.spec.method)
    evidence = _evidence(checked, earlier)
    drawn = preview(
        spec,
        start_points=start_points(spec, method, evidence.leaders or {}),
        count=min(SAMPLES, spec.budget or SAMPLES),
        learned=evidence.learned,
    )
    configs = [spec.config(assignment) for assignment in drawn]
    click.echo(_head(spec))
    for assignment in drawn:
        settings = " ".join(f"{name}={format_value(value)}" for name, value in assignment.items())
        click.echo(f"  {settings or 'nothing is searched'}")
    for line in values:
        click.echo(f"  {line}")
    for line in checked.own_sets:
        click.echo(f"  {line}")
    for line in checked.missing:
        click.echo(f"  to fetch: {line}")
    for line in checked.to_install:
        click.echo(f"  to install: {line}")
    seeds = " ".join(map(str, spec.seeds.further))
    further = f", then {seeds}" if seeds else ""
    click.echo(f"  seeds: {spec.seeds.search} in the search{further}")
    if sizes := checked.sizes:
        corpus = sizes.corpus
        what = f"rows of {len(corpus.columns)} sentences" if corpus.columns else "sentences"
        click.echo(f"  corpus: {corpus.name}, {len(corpus.sentences):,} {what}")
        click.echo(f"  steps: {_range(sizes.fewest_steps, sizes.most_steps)} a trial")
    click.echo(f"  disk: {disk_line(checked, at_once)}")
    for line in [*checked.doubts, *evidence.notes(spec)]:
        click.echo(f"  note: {line}")
    if checked.shortage:
        click.echo(f"  not here: {checked.shortage}")
    if spec.resources.measured:
        click.echo("  resources: measured at the start; below, a trial has a core, or a whole GPU")
    click.echo(f"  time: {time_line(checked, configs, at_once, probe=probe)}")


def _head(spec: SweepSpec) -> str:
    confirm, asked = spec.seeds.confirm, spec.evaluate
    more = len(spec.seeds.further)
    further = f" and {counted(more, 'seed')} of the best {confirm.top}" if confirm and more else ""
    tested = f"; test sets for the best {asked.top}: {' '.join(asked.tasks)}" if asked else ""
    trials = [] if spec.budget is None else [counted(spec.budget, "trial")]
    limits = trials if spec.search.budget is None else [*trials, *spec.search.budget.words()]
    at_most = "at most " if len(limits) > 1 else ""
    head = f"{spec.sweep}: {spec.method} on {spec.backbone}, {at_most}{', '.join(limits)}"
    return head + further + _after(spec) + tested


def _after(spec: SweepSpec) -> str:
    """What the search is after, beside the dev score."""
    objectives = ", ".join(map(str, spec.search.objectives))
    told = [f"; objectives {objectives}"] if objectives else []
    if spec.search.constraints:
        told.append(f"; with {' and '.join(spec.search.constraints)}")
    return "".join(told)


def _evidence(checked: Checked, earlier: Sequence[SweepSpec]) -> "Evidence":
    """What the search takes over from earlier sweeps; those of the same file are still to come."""
    from cse_platform.runner.planning.evidence import Evidence, gather

    where, search = checked.where, checked.spec.search
    coming = {spec.sweep for spec in earlier}
    there = tuple(name for name in search.learn_from if name not in coming)
    if not there and "leaderboard" not in search.start_from:
        return Evidence()
    asked = search.model_copy(update={"learn_from": there})
    spec = checked.spec.model_copy(update={"search": asked})
    try:
        with open_read_only(where.leaderboard) as store:
            return gather(_past(where), spec, store, dev=DevData(spec).columns)
    except NoStoreError as error:
        if there:
            raise SweepRefusedError(f"nothing can be learned from {there[0]!r}: {error}") from error
        return Evidence(leaders={})
    except DataError:  # that are still to be fetched
        return Evidence()


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
