"""Describe what a sweep has found in about ten lines: for its end, `status` and `logs`."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from cse_methods.published.released import SCORED_BY
from cse_platform.counting_seeds import LEAST_FURTHER
from cse_platform.export.journal_files import has_output
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.families import FAMILIES, OWN, family_named, is_own
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.records import SAW_TESTS, LeaderboardRow, Trial, dev_key
from cse_platform.leaderboard.statistics.searches import LEAST_SEARCHED
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.numbers import HASH_DIGITS, format_count, percent, short_settings
from cse_platform.presentation.board_entries import CHOSEN, Board, Group, OurEntry, list_all_entries
from cse_platform.tracking.events import UNCHECKED_DATA
from cse_platform.tracking.history import TrialHistory
from cse_platform.values import group_by

MOST_ERRORS, MOST_NUMBERS = 3, 20
"""How many errors are shown, and how many trials or seeds in one line."""


def outcome_lines(
    board: Leaderboard, name: str, *, runs: Path | None = None, options: str = ""
) -> list[str]:
    """Describe the best of a sweep, its seeds and test scores, and what to do next.

    `runs` is a runs folder that may have the outputs of its trials. `options` are those that name
    the leaderboard in a command.
    """
    with board.sharing():
        sweep, trials = board.sweep(name), board.running_and_ended(name)
        best = sweep.best
        rows = [] if best is None else _read_best_rows(board, name)
        compared = [trial for trial in trials if trial.state in ("COMPLETE", "PRUNED")]
        searched = {trial.configuration for trial in compared if trial.role != "confirm"}
        spec = board.sweep_spec(name)
    is_ours = spec.get("source") not in UNCHECKED_DATA
    keys = {key for row in rows for key in row.keys.values()}
    seeds = [trial for trial in trials if trial.key in keys]
    lines = list[str]()
    is_trained = any(row.method != SCORED_BY for row in rows)
    if best is not None:
        lines += _describe_best(sweep, best, rows[0], seeds)
        chose = is_trained and rows[0].dev_score.counts_choice and len(searched) > 1
        if sweep.state == "COMPLETE" and chose:
            lines.append(_explain_choice(board, spec, seeds[0], searched=len(searched)))
    untrained = rows[0].dev_untrained if rows else None
    if untrained is not None and is_trained:
        score, start = rows[0].dev_score, f"{percent(untrained)} at step 0"
        if {*score.values.values()} == {untrained}:
            lines.append(
                f"this equals the untrained backbone, {start}: training has not changed the order "
                "of its similarities; try a higher learning_rate or more steps"
            )
        elif score.mean < untrained:
            lines.append(
                f"this is below the untrained backbone, {start}: try a lower learning_rate, more "
                "steps, larger batches or another pooler"
            )
    entries = Group(list_all_entries(Board(rows))).ours
    evaluations = Counter(column for row in rows for column in row.scores)
    several = {column for column, count in evaluations.items() if count > 1}
    lines += [line for entry in entries for line in _describe_tests(entry, several)]
    for other, shown in group_by(trials, lambda trial: trial.results_of).items():
        if other is not None:
            lines.append(
                f"{_list_numbers(shown)}: the leaderboard has the results of {other}, which has "
                "run the same"
            )
    if sweep.state == "FAILED":
        lines.append(explain_no_result(name, trials, is_ours=is_ours, options=options))
    elif sweep.state == "COMPLETE" and rows:
        failed = [trial for trial in trials if trial.state == "FAIL"]
        lines += _describe_failures(failed)
        counted = [trial for trial in seeds if trial.seed in rows[0].seeds]
        to_retry = failed if is_ours else []
        lines += _describe_next(board, sweep, counted, to_retry, rows, runs=runs, options=options)
    elif sweep.state == "INTERRUPTED":
        lines.append("next: run its command again; it continues where it stopped")
    return lines


def _read_best_rows(board: Leaderboard, name: str) -> list[LeaderboardRow]:
    """Read the leaderboard's rows of a sweep's best configuration, which has a complete trial: with
    the scores of all main families, then of own sets.
    """
    rows = board.rows(Filters(sweep=name), ranked=False)
    best = max(rows, key=dev_key).configuration.hash
    own = board.rows(Filters(sweep=name, configuration=best), tasks=OWN, ranked=False)
    return [
        *(row for row in rows if row.configuration.hash == best),
        *(row for row in own if row.scores),
    ]


def _describe_best(
    sweep: SweepOverview,
    best: Trial,
    row: LeaderboardRow,
    seeds: Sequence[Trial],
) -> Iterator[str]:
    """Describe the best trial, and the best configuration by its row and the trials of its complete
    seeds.
    """
    yield (
        f"best dev {sweep.dev}: {percent(best.best_value)}"
        + f" at step {best.best_step}" * (best.best_step is not None)
        + f" (trial {best.number}, seed {best.seed}{_format_settings(best)})"
    )
    score, first = row.dev_score, seeds[0]
    if score.n > 1:
        is_other = first.configuration != best.configuration
        chose, verb = _list_seeds(score.left_out), "do" if len(score.left_out) > 1 else "does"
        yield (
            f"best over seeds: dev {percent(score.mean)} ±{percent(score.std)}"
            + f" (trial {first.number}{_format_settings(first)})" * is_other
            + f"; {_list_seeds(score.values)}"
            + f"; chosen by {chose}, which {verb} not count" * bool(chose)
        )


def _explain_choice(
    board: Leaderboard, spec: Mapping[str, Any], trial: Trial, *, searched: int
) -> str:
    """Say that the value counts that chose the best of `searched` configurations, of which `trial`
    is one seed, and which further seeds give an honest estimate.

    They stand beside those of the sweep's file, and the configuration has not run them in any
    sweep: those that it ran may have chosen it, or failed. All seeds of a recorded or imported
    sweep choose, but a sweep of one configuration chooses nothing.
    """
    further = "of it in a sweep of their own give an honest estimate"
    if spec.get("source") not in UNCHECKED_DATA:
        seeds = spec.get("seeds") or {}
        confirm = seeds.get("confirm") or {"top": min(searched - 1, 3), "seeds": []}
        siblings = board.trial(f"{trial.sweep}#{trial.number}").siblings
        known = {trial.seed, *(other.seed for other in siblings), *confirm["seeds"]}
        unused = islice((seed for seed in count() if seed not in known), LEAST_FURTHER)
        confirmed = confirm | {"seeds": [*confirm["seeds"], *unused]}
        block = _write_block(seeds | {"confirm": confirmed})
        further = f"give an honest estimate: seeds: {block}"
    return (
        f"the value that chose it among {searched} configurations counts here, so it is too high; "
        f"two further seeds {further}"
    )


def _write_block(value: Any) -> str:
    """Write a part of a sweep file in one line, without the fields that are off."""
    if not isinstance(value, Mapping):
        return "true" if value is True else str(value)
    fields = [f"{name}: {_write_block(own)}" for name, own in value.items() if own is not False]
    return f"{{{', '.join(fields)}}}"


def _list_seeds(values: Mapping[int, float]) -> str:
    first = [f"seed {seed} {percent(value)}" for seed, value in values.items()][:MOST_NUMBERS]
    more = f" and {len(values) - MOST_NUMBERS} more" * (len(values) > MOST_NUMBERS)
    return ", ".join(first) + more


def _format_settings(trial: Trial) -> str:
    return ", " * bool(trial.searched_values) + short_settings(trial.searched_values)


def _describe_tests(entry: OurEntry, several: Collection[str]) -> Iterator[str]:
    """Describe the test scores of each family: its averages before their tasks, or each task with
    its own spread. Scores with other notes, as of fewer seeds, have a line of their own, and those
    of which there are `several` evaluations name theirs.
    """
    scores = entry.row.scores
    for name in FAMILIES:
        family = family_named(name, [entry.row])
        shown = [n for n in (*family.averages, *family.columns) if n in scores]
        seen = entry.row.seen_on(family.columns)
        most = max((each.share for each in seen.seen if each.split == "test"), default=0.0)
        told = {SAW_TESTS: f"saw up to {percent(most)} % of a set's test sentences"}
        marks = [told.get(mark, mark) for mark in seen.marks]
        note = partial(_note_score, entry, marks, several, family.columns)
        by_notes = group_by(dict.fromkeys(shown), note)
        for notes, columns in by_notes.items():
            has_average = columns[0] in family.averages
            texts = {n: f"{n} {percent(scores[n].mean)}" for n in columns}
            for n in columns[:1] if has_average else columns:
                if (std := scores[n].std) is not None:
                    texts[n] += f" ±{percent(std)}"
            first, *others = texts.values()
            listed = ", ".join(others)
            text = first + (": " if has_average else ", ") * bool(listed) + listed
            yield f"test {text}" + f" ({', '.join(notes)})" * bool(notes)


def _note_score(
    entry: OurEntry,
    marks: Sequence[str],
    several: Collection[str],
    family: Sequence[str],
    column: str,
) -> tuple[str, ...]:
    """Note what a reader must know of a test score: that it is over fewer seeds than the row has,
    how these were trained, on which data it is, and that a seed counts which chose the row, as
    others lack a score of its `family`.
    """
    row, notes = entry.row, list[str]()
    score = row.scores[column]
    if score.n < (expected := len(row.seeds_for(score))):
        notes.append(f"{score.n} of {expected} seeds")
    if column in several:
        notes.append(f"evaluation {score.identity[:HASH_DIGITS]}")
    notes += [*marks, *["built-in data"] * (column in entry.builtin)]
    if column in entry.counting_choice:
        others, lacking = "", row.lacking_in(family)
        if not row.dev_score.counts_choice:
            what = "" if column in lacking else f" on {', '.join(lacking)}"
            others = f": cse-evaluate scores the others{what}"
        notes.append(f"{CHOSEN} the seed that chose it counts{others}")
    return tuple(notes)


def _describe_failures(failed: Sequence[Trial]) -> Iterator[str]:
    """Describe which trials failed of which error, the most common errors first."""
    by_error = group_by(failed, lambda trial: trial.error).items()
    errors = sorted(by_error, key=lambda item: -len(item[1]))
    for error, trials in errors[:MOST_ERRORS]:
        yield f"failed: {_list_numbers(trials)}: {error or 'no error known'}"
    if len(errors) > MOST_ERRORS:
        others = sum(len(trials) for _, trials in errors[MOST_ERRORS:])
        yield f"failed: {others} more, of other errors"


def _list_numbers(trials: Sequence[Trial]) -> str:
    shown = " ".join(str(trial.number) for trial in trials[:MOST_NUMBERS])
    return f"trial{'s' * (len(trials) > 1)} {shown}" + " …" * (len(trials) > MOST_NUMBERS)


def _describe_next(
    board: Leaderboard,
    sweep: SweepOverview,
    best: Sequence[Trial],
    failed: Sequence[Trial],
    rows: Sequence[LeaderboardRow],
    *,
    runs: Path | None,
    options: str,
) -> Iterator[str]:
    """Describe what to do after a search that has found something."""
    kinds = {is_own(column) for row in rows for column in row.scores} or {False}
    ranking = f"cse-leaderboard --backbone {shlex.quote(sweep.backbone)}"
    commands = {
        f"{ranking}{' --tasks own' * own}{options}": "all methods" + ", on own test sets" * own
        for own in sorted(kinds)
    }
    history = board.search(sweep.name)
    tried = [trial for trial in history.outcomes if trial.role == "search"]
    if sum(trial.best_value is not None for trial in tried) >= LEAST_SEARCHED:
        from cse_platform.search.findings import find_borders, format_border  # imports Optuna

        yield from map(format_border, find_borders(history))
        commands[f"cse-leaderboard search {sweep.name}{options}"] = "how far to trust the search"
    kept = [trial for trial in best if trial.model is not None]
    if not any(row.scores for row in rows):
        for trial in kept:
            command = f"cse-evaluate {trial.key[:HASH_DIGITS]}{options}"
            commands[command] = f"scores of seed {trial.seed} on test sets"
    if kept:
        name, model = sweep.name, "the best model"
        if sweep.best is not None and sweep.best.configuration != best[0].configuration:
            name, model = rows[0].reference, "the best model of the best over seeds"
        commands[f"cse-leaderboard export {name} DIR{options}"] = model
    for trial in failed[:MOST_ERRORS]:
        if has_output(board.trial(f"{sweep.name}#{trial.number}"), runs):
            command = f"cse-sweep logs {sweep.name} --trial {trial.number}{options}"
            commands[command] = f"what trial {trial.number} printed"
            break
    if failed:
        commands[f"cse-sweep retry {sweep.name}{options}"] = "try the failed trials again"
    commands = {add_folder(command): purpose for command, purpose in commands.items()}
    yield "next:"
    width = max(map(len, commands))
    yield from (f"  {command:{width}}  # {purpose}" for command, purpose in commands.items())


def add_folder(command: str) -> str:
    """Put before a command the folder of our programs, unless they are on the path."""
    program = Path(sys.argv[0])
    is_hidden = program.name.startswith("cse-") and shutil.which(program.name) is None
    return f"{program.parent}/{command}" if is_hidden else command


def state_line(sweep: str, state: str, counts: Mapping[str, int]) -> str:
    """Describe the state of a sweep, and how many of its trials are in each state."""
    return f"{sweep}: {state}, {format_counts(counts)}"


def format_counts(counts: Mapping[str, int]) -> str:
    """Format the numbers of trials in each state, such as `3 trials (2 complete, 1 unfinished)`."""
    present = {name: count for name, count in sorted(counts.items()) if count}
    words = {"RUNNING": "unfinished"}
    listed = ", ".join(f"{n} {words.get(name, name.lower())}" for name, n in present.items())
    trials = format_count(sum(present.values()), "trial")
    return trials + f" ({listed})" * bool(listed)


def explain_no_result(
    sweep: str,
    trials: Collection[Trial | TrialHistory],
    *,
    is_ours: bool = True,
    options: str = "",
) -> str:
    """Explain that a sweep has completed no trial: the usual reasons, and what to do.

    `is_ours` is whether cse-sweep ran it; recorded and imported trials have no command here that
    runs them again. `options` are those that name the leaderboard in a command.
    """
    errors = Counter(trial.error for trial in trials if trial.error)
    pruned = [trial.number for trial in trials if trial.state == "PRUNED"]
    text = f"no trial of sweep {sweep!r} was completed"
    if errors:
        (error, count), *others = errors.most_common(MOST_ERRORS)
        text += f": {count} of {format_count(len(trials), 'trial')} failed with {error}"
        text += "".join(f"; {count} with {error}" for error, count in others)
        if more := errors.total() - count - sum(count for _, count in others):
            text += f"; {more} with other errors"
        if is_ours:
            text += "; change the file, the code or the data, and run the same command to try "
            text += "them again"
        else:
            text += "; change the script or the data, and run it again"
    if pruned and is_ours:
        numbers = " ".join(map(str, pruned))
        text += (
            f"{'; ' if errors else ': '}{len(pruned)} of {format_count(len(trials), 'trial')} were "
            "pruned; raise pruner.min_step or write `pruner: none`, ask for them by "
            f"`cse-sweep retry {sweep} {numbers}{options}`, and run the same command again"
        )
    return text
