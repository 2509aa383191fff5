"""Rehearse a whole file on a small encoder, for `cse-sweep FILE --smoke`."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path

from filelock import FileLock, Timeout

from cse_methods.errors import CseError
from cse_methods.tasks import Tasks
from cse_platform.cli.checks import Checked, check_stages
from cse_platform.cli.common import say
from cse_platform.cli.run import run_stage
from cse_platform.errors import SweepRefusedError
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.records import BOARD_FAMILIES, Filters
from cse_platform.render.table import format_count
from cse_platform.render.terminal import Terminal
from cse_platform.runner.publishing import Publisher
from cse_platform.runner.tune import RayExecutor
from cse_platform.search.confirmation import chosen_trials
from cse_platform.signals import heed_sigterm
from cse_platform.standard_streams import echo, unwritable_dropped
from cse_platform.sweep.file import DraftFile, DraftSweep
from cse_platform.sweep.identity import canonical_hash
from cse_platform.sweep.preflight import fetch_missing
from cse_platform.sweep.problems import Inspection
from cse_platform.sweep.rehearsal import (
    BRIEF,
    ENCODER,
    SENTENCES,
    SMOKE,
    Rehearsal,
    own_stores,
    rehearse,
)
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
    heed_sigterm()
    console = Terminal(markup=False, highlight=False)
    folder = runs / SMOKE / (draft.path.stem.strip(".-") or "sweep")
    given = _check_as_given(draft, folder / "given", offline=offline)
    with _hold_empty_folder(folder):
        rehearsals = {each.spec.sweep: each for each in rehearse(given, folder)}
        for line in _describe_rehearsal(draft, folder, list(rehearsals.values())):
            echo(line)
        summary, failed = list[str](), list[str]()
        launch = Launch(settings=canonical_hash(list(rehearsals)))
        executor = RayExecutor(address=address, ship=ship)
        for sweep, rehearsal in rehearsals.items():
            cause = None
            try:
                checked = _check_stage(
                    draft, rehearsal, folder=folder, address=address, offline=offline
                )
                silent = Publisher(sweep, checked.where, command="")
                spec, where = checked.spec, checked.where
                run_stage(spec, where, executor, silent, console, launch=launch, reuse=reuse)
            except CseError as error:
                cause = error
                echo(f"{sweep}: {cause}", err=True)
            said, failures = _examine_stage(rehearsal.spec, folder)
            if cause is not None:
                failures = [*(f for f in failures if f.startswith("trial ")), str(cause)]
            failed.extend([sweep] if failures else [])
            summary.append(f"{'FAILED' if failures else 'ok':6}  {sweep}: {said}")
            summary.extend(f"        {failure}" for failure in failures)
        executor.close()
    echo("\n".join(["", *summary, f"Look at it: cse-leaderboard --runs {folder}"]))
    if failed:
        raise SweepRefusedError(
            f"{len(failed)} of {format_count(len(rehearsals), 'stage')} failed in the rehearsal; "
            "the reasons are above"
        )


@contextmanager
def _hold_empty_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of a file's rehearsal, and delete what the last rehearsal left there."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"), timeout=0)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        if folder.exists():
            shutil.rmtree(folder)
    except Timeout:
        raise SweepRefusedError(
            f"another process is rehearsing in {folder}; wait until it ends, or choose another "
            "folder with --runs"
        ) from None
    except OSError as error:
        raise SweepRefusedError(
            f"cannot create {error.filename or folder}: {error.strerror}; choose another folder "
            "with --runs"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _check_as_given(draft: DraftFile, nowhere: Path, *, offline: bool) -> list[SweepSpec]:
    """Check the original sweeps as a dry run does, without opening their stores; return them."""
    stages = tuple(
        replace(stage, spec=stage.spec.model_copy(update=own_stores(nowhere)))
        for stage in draft.stages
    )
    checked = check_stages(
        replace(draft, stages=stages), runs=nowhere, address=None, offline=offline, starts=False
    )
    for line in dict.fromkeys(line for stage in checked for line in stage.doubts):
        echo(f"note: {line}", err=True)
    return [stage.spec for stage in stages]


def _check_stage(
    draft: DraftFile, rehearsal: Rehearsal, *, folder: Path, address: str | None, offline: bool
) -> Checked:
    """Check a stage as a run does, and download what it reads."""
    alone = replace(draft, stages=(DraftSweep(rehearsal.spec, Inspection(), (rehearsal.spec,)),))
    for fetched in (False, True):
        (checked,) = check_stages(alone, runs=folder, address=address, offline=offline, starts=True)
        if checked.shortage:
            raise SweepRefusedError(checked.shortage)
        if not checked.missing or fetched:
            break
        say(f"{checked.spec.sweep}: fetching", log="stdout")
        fetch_missing(checked.spec)
    return checked


def _describe_rehearsal(
    draft: DraftFile, folder: Path, rehearsals: Sequence[Rehearsal]
) -> Iterator[str]:
    """Describe what the rehearsal has replaced."""
    name = name_file(draft.path)
    yield (
        f"rehearsing {name} in {folder}; its numbers mean nothing, and no other leaderboard "
        "gets them"
    )
    encoders = {
        name
        for each in rehearsals
        for name in (each.original.backbone, *each.replacements.encoders)
    }
    corpora = {corpus.short_name for each in rehearsals for corpus in each.original.corpus}
    data = {each.spec.data or "" for each in rehearsals}
    steps = f"{BRIEF['max_steps']} steps a trial in batches of an eighth, {BRIEF['precision']}"
    yield f"  {ENCODER} stands in for {_join_names(encoders - {ENCODER}) or 'itself'}"
    sentences = f"at most {SENTENCES:,} built-in sentences"
    yield f"  {sentences} stand in for {_join_names(corpora)}; data: {_join_names(data)}"
    yield f"  {steps}, on one CPU core; every searched value, and one further seed"
    changed = Counter(line for each in rehearsals for line in each.changes)
    for line, count in changed.items():
        stages = f" ({format_count(count, 'stage')})" if len(rehearsals) > 1 else ""
        yield f"  {line}{stages}"


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _examine_stage(spec: SweepSpec, folder: Path) -> tuple[str, list[str]]:
    """Return what a stage has, in words, and what failed or has no number."""
    where = sweep_stores(spec, runs=folder)
    if not where.journal.exists():
        return "it did not start", ["it did not start"]
    history = History(event for _, event in read_journal(where.journal))
    trials = list(history.trials.values())
    failures = [f"trial {trial.number}: {trial.error}" for trial in trials if trial.state == "FAIL"]
    said = format_count(len(trials), "trial")
    if not history.configurations():
        return f"{said}; no numbers", failures or ["no trial is complete"]
    asked = spec.evaluate.asked if spec.evaluate else Tasks()
    chosen = chosen_trials(history, spec, top=spec.evaluate.top if spec.evaluate else 0)
    done = [set().union(*trial.evaluated.values()) for trial in chosen]
    lacking = {part for part in asked.parts if not all(part in parts for parts in done)}
    expected = {*asked.sts, *asked.transfer, *asked.long}
    if asked.ranking and spec.data != "builtin":
        expected |= set(BOARD_FAMILIES["ranking"].averages)
    with open_leaderboard(where.leaderboard) as board:
        rows = board.rows(Filters(sweep=spec.sweep), per_configuration=True, ranked=False)
    scores = {name: score.mean for row in rows for name, score in row.scores.items()}
    means = [(f"dev {row.dev.search}", row.dev_score.mean) for row in rows]
    means += [(name, score.mean) for row in rows for name, score in row.scores.items()]
    failures += [
        f"{n}: a score is not a number" for n in sorted({n for n, m in means if not isfinite(m)})
    ]
    failures += [f"{part}: no number" for part in sorted(lacking | expected - scores.keys())]
    counts = {
        f.name: sum(column in scores for column in f.columns) for f in BOARD_FAMILIES.values()
    }
    families = [f"{name} ({format_count(n, 'column')})" for name, n in counts.items() if n]
    return "; ".join([said, f"dev ({', '.join(spec.dev.tasks)})", *families]), failures
