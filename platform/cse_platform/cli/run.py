"""Run `cse-sweep FILE` stage by stage, and print the results."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean

from cse_platform.cli.checks import Checked, check_stages
from cse_platform.cli.common import say
from cse_platform.cli.findings import MOST
from cse_platform.cli.progress import watching
from cse_platform.control.annotations import replay_annotations
from cse_platform.errors import JournalError, StoreError, SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.documents import document_tables, print_document
from cse_platform.leaderboard.records import Filters, family_of
from cse_platform.leaderboard.searches import format_measured
from cse_platform.render.formats import format_count, percent, short_settings
from cse_platform.render.terminal import Terminal, print_page
from cse_platform.runner.confirmation import (
    Seeds,
    best_configurations,
    find_average,
    pareto_front,
)
from cse_platform.runner.driver import Outcome
from cse_platform.runner.stages import Stage, run_stages
from cse_platform.runner.state import SweepState
from cse_platform.runner.tune import RayExecutor
from cse_platform.search.findings import format_findings, search_findings
from cse_platform.secrets import mask_url
from cse_platform.signals import heed_sigterm
from cse_platform.standard_streams import echo, unwritable_dropped
from cse_platform.stores.mlflow.store import experiment_id, is_server
from cse_platform.stores.mlflow.tags import view_link
from cse_platform.sweep.file import DraftFile
from cse_platform.sweep.objectives import is_feasible, measure
from cse_platform.sweep.preflight import fetch_missing
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import SweepStores, sweep_folder
from cse_platform.tracking.history import History, TrialHistory

SHOWN_OF_FRONT = 10
"""The number of configurations of a front that are shown."""


def best_lines(spec: SweepSpec, history: History) -> Iterator[str]:
    """Describe the best configurations of a sweep; nothing if no trial is complete."""
    ranked = best_configurations(history, constraints=spec.search.constraints)
    if not ranked and history.configurations():
        bounds = " and ".join(spec.search.constraints)
        yield (
            f"no configuration keeps {bounds}, so none is the best, and none gets further seeds "
            "or is evaluated"
        )
    elif spec.search.objectives:
        yield from _describe_front(spec, history)
    elif ranked:
        yield from _describe_best_trial(spec, history, ranked)


def _describe_best_trial(spec: SweepSpec, history: History, ranked: list[Seeds]) -> Iterator[str]:
    """Describe the best trial and, if the lower bound decides, the best configuration.

    A trial that itself breaks a constraint, although the means over its seeds keep it, is named
    only if no other trial keeps all constraints.
    """
    every = [trial for seeds in ranked for trial in seeds]
    kept = [trial for trial in every if is_feasible(spec.search.constraints, [trial])]
    best = max(kept or every, key=lambda trial: (trial.best_value or 0.0, -trial.number))
    yield (
        f"best dev {spec.dev.search_name}: {percent(best.best_value)} at step {best.best_step} "
        f"(trial {best.number}, seed {best.seed}{_format_settings(best)})"
    )
    if said := below_untrained(best):
        yield said
    for seeds in ranked:
        average = find_average(history, seeds)
        if average is not None and average.model is not None:
            yield (
                f"better than its best seed: the average of the weights of {len(seeds)} seeds, dev "
                f"{percent(average.best_value)} (trial {average.number}{_format_settings(average)})"
            )


def _describe_front(spec: SweepSpec, history: History) -> Iterator[str]:
    names = [objective.name for objective in spec.search.objectives]
    front = pareto_front(history, spec.search)
    several = "configurations are" if len(front) > 1 else "configuration is"
    yield (
        f"{len(front)} {several} on the Pareto front of "
        f"{', '.join(map(str, spec.search.objectives))}:"
    )
    for seeds in islice(front, SHOWN_OF_FRONT):
        settings = _format_settings(seeds[0])
        yield f"  {_format_means(seeds, names)} (trial {seeds[0].number}{settings})"
    if len(front) > SHOWN_OF_FRONT:
        more = len(front) - SHOWN_OF_FRONT
        yield f"  and {more} more: cse-leaderboard compare --front {spec.sweep}"


def _format_means(seeds: Seeds, names: list[str]) -> str:
    shown = []
    for name in names:
        values = [value for trial in seeds if (value := measure(trial, name)) is not None]
        shown.append(f"{name} {format_measured(name, fmean(values))}")
    return ", ".join(shown) + (f", means of {len(seeds)} seeds" if len(seeds) > 1 else "")


def _format_settings(trial: TrialHistory) -> str:
    return ", " * bool(trial.searched) + short_settings(trial.searched_values)


def below_untrained(best: TrialHistory) -> str | None:
    """Suggest what to try if even the best trial is below the untrained backbone; else None."""
    untrained = best.curve.get(0)
    if best.best_value is None or untrained is None or best.best_value >= untrained:
        return None
    rate = best.values.get("learning_rate")
    lower = f"a learning_rate below {rate:.2g}" if rate else "a lower learning rate"
    return (
        f"this is below the untrained backbone, {percent(untrained)} at step 0: training made it "
        f"worse; try {lower}, more steps than {best.step}, larger batches, or another pooler"
    )


HEAD = 5
"""The number of rows of the leaderboard that are shown at the end."""


@unwritable_dropped("stdout", "stderr")
def run_file(
    draft: DraftFile, *, runs: Path, address: str | None, ship: bool, offline: bool, reuse: bool
) -> None:
    """Run each sweep of a file in order; print the leaderboard's head and how to open MLflow."""
    heed_sigterm()
    console = Terminal(markup=False, highlight=False)  # messages of trials are not markup
    check = partial(check_stages, draft, runs=runs, address=address, offline=offline, starts=True)
    with closing(RayExecutor(address=address, ship=ship)) as executor:
        with ThreadPoolExecutor(1) as pool:  # both take seconds
            checking = pool.submit(check)
            # A sweep that has run may have nothing to do.
            if not any(sweep_folder(runs, stage.spec.sweep).exists() for stage in draft.stages):
                executor.start_ray()
            stages = checking.result()
        stages = _complete_checks(stages, check)
        for line in dict.fromkeys(line for checked in stages for line in checked.own_sets):
            console.print(line, soft_wrap=True)
        ready = [Stage(checked.spec, checked.where) for checked in stages]
        run_stages(ready, executor, ConsoleDisplay(console), reuse=reuse)


def _complete_checks(stages: list[Checked], check: Callable[[], list[Checked]]) -> list[Checked]:
    """Fetch what the sweeps lack, and print their doubts; SweepRefusedError if one cannot run."""
    if absent := [checked.spec for checked in stages if checked.missing]:
        for spec in absent:
            say(f"{spec.sweep}: fetching", log="stdout")
            fetch_missing(spec)
        stages = check()  # again, now that the files are here
    for checked in stages:
        for line in checked.doubts:
            echo(f"note: {line}", err=True)
        if checked.shortage:
            raise SweepRefusedError(checked.shortage)
    return stages


class ConsoleDisplay:
    """Prints the progress of a file's stages, their outcomes and their findings."""

    def __init__(self, console: Terminal) -> None:
        self._console = console

    def begin_stage(self, stage: Stage) -> None:
        say(f"{stage.spec.sweep}: opening the stores, reading weights and data", log="stdout")

    def watch(self, stage: Stage, state: SweepState) -> AbstractContextManager[None]:
        return watching(state, self._console, errors=stage.stores.errors)

    def end_stage(self, stage: Stage, outcome: Outcome) -> None:
        for line in self.summarize(stage, outcome):
            self._console.print(line, soft_wrap=True)
        for sink in outcome.behind:
            echo(
                f"{sink.name} lacks {format_count(sink.behind, 'event')} ({sink.error}); nothing "
                "is lost: the same command brings them over when it is back",
                err=True,
            )
        if outcome.state != "INTERRUPTED":
            _print_findings(stage.spec, stage.stores, self._console)

    def summarize(self, stage: Stage, outcome: Outcome) -> Iterator[str]:
        return _summarize_outcome(stage.spec, outcome)

    def end_file(self, stages: Sequence[Stage]) -> None:
        last = stages[-1]
        try:
            replay_annotations(last.stores.leaderboard, last.stores.runs, last.spec.experiment)
        except (StoreError, JournalError) as error:
            echo(f"annotations are not brought over: {error}", err=True)
        print_results([stage.spec for stage in stages], last.stores, self._console)

    def wait_for_publication(self) -> None:
        say("writing the report of the sweep to MLflow", log="stdout")


def _summarize_outcome(spec: SweepSpec, outcome: Outcome) -> Iterator[str]:
    """Summarise the number of trials in each state, and the best ones."""
    trials = list(outcome.history.trials.values())
    counts = Counter(trial.state.lower() for trial in trials)
    listed = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    state = {"COMPLETE": "complete", "INTERRUPTED": "interrupted"}.get(
        outcome.state, "is complete already; a larger --trials extends it"
    )
    yield f"{spec.sweep}: {state}, {format_count(len(trials), 'trial')} ({listed})"
    if outcome.history.spent:
        yield f"the search was ended by its budget: {outcome.history.spent}"
    if outcome.state != "INTERRUPTED":
        yield from _describe_savings(spec, trials)
    if deleted := sum(trial.model_deleted for trial in trials):
        yield (
            f"{format_count(deleted, 'model')} deleted; the best {spec.kept} configurations keep "
            "theirs (keep: {models: all} keeps all)"
        )
    if not spec.smoke:
        yield from best_lines(spec, outcome.history)


def _describe_savings(spec: SweepSpec, trials: Sequence[TrialHistory]) -> Iterator[str]:
    """Describe how many further seeds a race has saved."""
    confirm = spec.seeds.confirm
    further = sum(trial.role == "confirm" and not trial.averages for trial in trials)
    if confirm is not None and confirm.race and 0 < further < spec.confirming:
        yield (
            f"the race took {further} of {spec.confirming} further seeds; the other configurations "
            "could no longer be the best"
        )


def _print_findings(spec: SweepSpec, where: SweepStores, console: Terminal) -> None:
    """Print the search's findings and how far to trust them; nothing for a short search."""
    try:
        with open_leaderboard(where.leaderboard) as board:
            findings = search_findings(board.search(spec.sweep, limit=MOST))
    except StoreError as error:
        echo(f"what the search has found cannot be shown: {error}", err=True)
        return
    for line in [] if findings is None else format_findings(findings):
        console.print(f"  {line}", soft_wrap=True)


def print_results(specs: Sequence[SweepSpec], where: SweepStores, console: Terminal) -> None:
    """Print the rows of these sweeps, then the best rows of all sweeps on the last backbone.

    If the former contain the latter, only the latter are printed.
    """
    last = specs[-1]
    console.print()
    try:
        with open_leaderboard(where.leaderboard) as board:
            own = [
                row for spec in specs for row in board.rows(Filters(sweep=spec.sweep), ranked=False)
            ]
            best = board.rows(Filters(backbone=last.backbone), limit=HEAD)
    except StoreError as error:
        echo(f"the leaderboard cannot be shown: {error}", err=True)
    else:
        shown = {row.reference for row in own}
        if not {row.reference for row in best} <= shown:
            console.print(f"Found by {' and '.join(spec.sweep for spec in specs)}")
            ranking, *_ = document_tables(Board(own, family=family_of(own)), wide=False)
            print_page([ranking])
            console.print(f"\nThe best on {last.backbone} of all sweeps")
        print_document(Board(best, family=family_of(best)), format="table")
    console.print()
    for line in _describe_comparison(where.mlflow, last.experiment):
        console.print(line, soft_wrap=True)


def _describe_comparison(uri: str, experiment: str) -> Iterator[str]:
    """Describe how to open MLflow's table of all trials, averaged over seeds."""
    shown = mask_url(uri)
    try:
        view = f"/{view_link(experiment_id(uri, experiment))}"
    except StoreError:
        view = ""  # the sweep's end has already reported that MLflow is down
    if is_server(uri):
        yield f"Compare runs: {shown.rstrip('/')}{view}"
    else:
        yield f"Compare runs: mlflow ui --backend-store-uri {shlex.quote(shown)}"
        yield f"    and open: http://127.0.0.1:5000{view}"
