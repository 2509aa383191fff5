"""Rehearse a whole file on a small encoder, for `cse-sweep FILE --smoke`."""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path

from filelock import FileLock, Timeout

from cse_methods.errors import CseError
from cse_methods.referenced_tasks.snapshots import with_snapshots
from cse_methods.tasks import Tasks
from cse_platform.errors import SweepRefusedError
from cse_platform.launch.check import check_and_fetch, check_stages
from cse_platform.launch.run import run_stage
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.families import BOARD_FAMILIES, is_of_mteb
from cse_platform.leaderboard.filters import Filters
from cse_platform.numbers import format_count
from cse_platform.presentation.terminal import Terminal
from cse_platform.runner.tune import RayExecutor
from cse_platform.search.confirmation import chosen_trials
from cse_platform.signals import interrupt_on_sigterm
from cse_platform.standard_streams import echo, unwritable_dropped
from cse_platform.sweep.file import DraftFile, DraftSweep
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.preflight import with_data_source
from cse_platform.sweep.problems import Inspection
from cse_platform.sweep.rehearsal import SMOKE, own_stores, rehearse
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import sweep_stores
from cse_platform.sweep.yaml_file import name_file
from cse_platform.tracking.events import Launch
from cse_platform.tracking.history import History
from cse_platform.tracking.journal import read_journal


@unwritable_dropped("stdout", "stderr")
def rehearse_file(
    draft: DraftFile, *, runs: Path, address: str | None, ship: bool, offline: bool, reuse: bool
) -> None:
    """Run each sweep of a file with everything large replaced; print failures and their causes.

    The rehearsal starts from scratch in its own folder, which no other sweep may use. If a stage
    fails, the next ones still run.

    Raises:
        SweepFileError: if the file itself is invalid, before anything runs.
        SweepRefusedError: if something failed, or the file is already being rehearsed.
    """
    interrupt_on_sigterm()
    console = Terminal(markup=False, highlight=False)
    folder = runs / SMOKE / (draft.path.stem.strip(".-") or "sweep")
    given = _check_as_given(draft, folder / "given", offline=offline)
    with _hold_empty_folder(folder):
        rehearsals = rehearse(given, folder)
        echo(
            f"rehearsing {name_file(draft.path)} in {folder}; its numbers mean nothing, and no "
            "other leaderboard gets them"
        )
        changes = Counter(line for each in rehearsals for line in each.describe_changes())
        for line, count in changes.items():
            stages = f" ({format_count(count, 'stage')})" if len(rehearsals) > 1 else ""
            echo(f"  {line}{stages}")
        summary, failed = list[str](), 0
        launch = Launch(settings=canonical_hash([each.spec.sweep for each in rehearsals]))
        executor = RayExecutor(address=address, ship=ship)
        for rehearsal in rehearsals:
            spec, cause = rehearsal.spec, None
            alone = replace(draft, stages=(DraftSweep(spec, Inspection(), (spec,)),))
            try:
                [checked] = check_and_fetch(
                    alone, runs=folder, address=address, offline=offline, start=executor.prepare
                )
                if checked.shortage:
                    raise SweepRefusedError(checked.shortage)
                stage = checked.spec, checked.stores
                run_stage(*stage, executor, console, launch=launch, reuse=reuse)
            except CseError as error:
                cause = error
                echo(f"{spec.sweep}: {cause}", err=True)
            total, failures = _examine_stage(spec, folder)
            if cause is not None:
                failures = [*(f for f in failures if f.startswith("trial ")), str(cause)]
            failed += bool(failures)
            summary.append(f"{'FAILED' if failures else 'ok':6}  {spec.sweep}: {total}")
            summary.extend(f"        {failure}" for failure in failures)
        executor.close()
    echo("\n".join(["", *summary, f"Look at it: cse-leaderboard --runs {folder}"]))
    if failed:
        raise SweepRefusedError(
            f"{failed} of {format_count(len(rehearsals), 'stage')} failed in the rehearsal; "
            "the reasons are above"
        )


@contextmanager
def _hold_empty_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of a file's rehearsal, and delete what the last rehearsal left there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0):
            if folder.exists():
                shutil.rmtree(folder)
            yield
    except Timeout:
        raise SweepRefusedError(
            f"another process is rehearsing in {folder}; wait until it ends, or choose another "
            "folder with --runs"
        ) from None


def _check_as_given(draft: DraftFile, nowhere: Path, *, offline: bool) -> list[SweepSpec]:
    """Check the original sweeps as a dry run does, without opening their stores; return them."""
    stages = tuple(
        replace(stage, spec=stage.spec.model_copy(update=own_stores(nowhere)))
        for stage in draft.stages
    )
    checked = check_stages(
        replace(draft, stages=stages), runs=nowhere, address=None, offline=offline
    )
    for line in dict.fromkeys(line for stage in checked for line in stage.doubts):
        echo(f"note: {line}", err=True)
    return [stage.spec for stage in stages]


def _examine_stage(spec: SweepSpec, folder: Path) -> tuple[str, list[str]]:
    """Return what a stage has, in words, and what failed or has no number."""
    stores = sweep_stores(spec, runs=folder)
    if not stores.journal.exists():
        return "it did not start", ["it did not start"]
    history = History(event for _, event in read_journal(stores.journal))
    trials = list(history.trials.values())
    failures = [f"trial {trial.number}: {trial.error}" for trial in trials if trial.state == "FAIL"]
    total = format_count(len(trials), "trial")
    if not history.configurations():
        return f"{total}; no numbers", failures or ["no trial is complete"]
    evaluate = with_data_source(spec, Inspection()).evaluate  # with the checksums of own files
    tasks = with_snapshots(evaluate.parsed_tasks) if evaluate else Tasks()
    chosen = chosen_trials(history, top=spec.evaluate.top if spec.evaluate else 0)
    done = [set().union(*trial.evaluated.values()) for trial in chosen]
    expected = {part for part in tasks.parts if not all(part in parts for parts in done)}
    with open_leaderboard(stores.leaderboard) as board:
        rows = board.rows(Filters(sweep=spec.sweep), per_configuration=True, ranked=False)
    scores = {name: score.mean for row in rows for name, score in row.scores.items()}
    of_mteb = [one.task for one in tasks.referenced if is_of_mteb(one.task)]
    expected |= {*tasks.sts, *tasks.transfer, *tasks.long, *of_mteb} - scores.keys()
    if tasks.ranking and spec.data != "builtin":
        expected |= {*BOARD_FAMILIES["ranking"].averages} - scores.keys()
    means = {f"dev {row.dev.search}": row.dev_score.mean for row in rows} | scores
    failures += [f"{name}: a score is not a number" for name in means if not isfinite(means[name])]
    failures += [f"{part}: no number" for part in sorted(expected)]
    families = [
        f"{family.name} ({format_count(count, 'column')})"
        for family in BOARD_FAMILIES.values()
        if (count := sum(column in scores for column in family.columns))
    ]
    return "; ".join([total, f"dev ({', '.join(spec.dev.tasks)})", *families]), failures
