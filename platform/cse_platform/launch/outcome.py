"""Describe what a sweep has found in about ten lines: for its end, `status` and `logs`."""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

from cse_platform.export.journal_files import has_output
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import (
    BUILTIN,
    FAMILIES,
    OWN,
    Filters,
    LeaderboardRow,
    Trial,
    family_named,
    is_own,
)
from cse_platform.leaderboard.statistics.searches import LEAST_SEARCHED
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.numbers import HASH_DIGITS, format_count, percent, short_settings
from cse_platform.search.confirmation import best_configurations, dev_values, select_counting_trials
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
        complete = [trial for trial in trials if trial.state == "COMPLETE"]
        seeds = group_by(complete, lambda trial: trial.configuration).values()
        chose = {trial.key for trial in trials if trial.chose}
        ranked = best_configurations(seeds, chose=chose)
        compared = [trial for trial in trials if trial.state in ("COMPLETE", "PRUNED")]
        searched = {trial.configuration for trial in compared if trial.role != "confirm"}
        rows = list[LeaderboardRow]()
        if ranked:  # the test scores of all main families, then of own sets
            best = Filters(sweep=name, configuration=ranked[0][0].configuration)
            rows += board.rows(best, per_configuration=True, ranked=False)
            own = board.rows(best, tasks=OWN, per_configuration=True, ranked=False)
            rows += [row for row in own if row.scores]
        is_ours = board.sweep_spec(name).get("source") not in UNCHECKED_DATA
    lines = list[str]()
    if ranked:
        tried = len(searched) if is_ours else None
        lines += _describe_best(sweep, ranked, chose, searched=tried)
    untrained = rows[0].dev_untrained if rows else None
    if untrained is not None and ranked[0][0].best_step != 0:  # the method untrained has no other
        highest, start = max(dev_values(ranked[0])), f"{percent(untrained)} at step 0"
        if highest < untrained:
            lines.append(
                f"this is below the untrained backbone, {start}: try a lower learning_rate, more "
                "steps, larger batches or another pooler"
            )
        elif highest == untrained:
            lines.append(
                f"this equals the untrained backbone, {start}: training has not changed the order "
                "of its similarities; try a higher learning_rate or more steps"
            )
    lines += [line for row in rows for line in _describe_tests(row)]
    for other, shown in group_by(trials, lambda trial: trial.results_of).items():
        if other is not None:
            lines.append(
                f"{_list_numbers(shown)}: shown with the results of {other}, which has run the "
                "same, and not with this sweep's own"
            )
    if sweep.state == "FAILED":
        lines.append(explain_no_result(name, trials, is_ours=is_ours, options=options))
    elif sweep.state == "COMPLETE" and ranked:
        failed = [trial for trial in trials if trial.state == "FAIL"]
        lines += _describe_failures(failed)
        counted = select_counting_trials(ranked[0], chose)
        to_retry = failed if is_ours else []
        lines += _describe_next(board, sweep, counted, to_retry, rows, runs=runs, options=options)
    elif sweep.state == "INTERRUPTED":
        lines.append("next: run its command again; it continues where it stopped")
    return lines


def _describe_best(
    sweep: SweepOverview,
    ranked: Sequence[list[Trial]],
    chose: Collection[str],
    *,
    searched: int | None,
) -> Iterator[str]:
    """Describe the best trial and configuration; `searched` is the number of configurations that
    our search has compared, failed ones not, None for trials that no sweep of ours ran.
    """
    first = ranked[0]
    best = max(
        [trial for seeds in ranked for trial in seeds],
        key=lambda trial: (trial.best_value or 0.0, -trial.number),
    )
    yield (
        f"best dev {sweep.dev}: {percent(best.best_value)}"
        + f" at step {best.best_step}" * (best.best_step is not None)
        + f" (trial {best.number}, seed {best.seed}{_format_settings(best)})"
    )
    counted = select_counting_trials(first, chose)
    values, left_out = dev_values(counted), [trial for trial in first if trial not in counted]
    if len(values) > 1:
        other = f" (trial {first[0].number}{_format_settings(first[0])})"
        yield (
            f"best over seeds: dev {percent(fmean(values))} ±{percent(stdev(values))}"
            + other * (first[0].configuration != best.configuration)
            + f"; {_list_seeds(counted)}"
            + f"; chosen by {_list_seeds(left_out)}, which does not count" * bool(left_out)
        )
    is_chosen = any(trial.key in chose for trial in counted)
    if sweep.state == "COMPLETE" and is_chosen and searched is not None and searched > 1:
        yield (
            f"the value that chose it among {searched} configurations counts here, so it is too "
            "high; two further seeds give an honest estimate: "
            f"seeds: {{confirm: {{top: {min(searched, 3)}, seeds: [0, 1, 2]}}}}"
        )


def _list_seeds(trials: Sequence[Trial]) -> str:
    shown = [f"seed {trial.seed} {percent(trial.best_value)}" for trial in trials[:MOST_NUMBERS]]
    more = f" and {len(trials) - MOST_NUMBERS} more" * (len(trials) > MOST_NUMBERS)
    return ", ".join(shown) + more


def _format_settings(trial: Trial) -> str:
    return ", " * bool(trial.searched_values) + short_settings(trial.searched_values)


def _describe_tests(row: LeaderboardRow) -> Iterator[str]:
    """Describe the test scores of each family: its averages before their tasks, or each task with
    its own spread.
    """
    for name in FAMILIES:
        family = family_named(name, [row])
        means = [n for n in family.averages if n in row.scores]
        shown = [*means, *(n for n in family.columns if n in row.scores and n not in means)]
        if not shown:
            continue
        scores = {n: f"{n} {percent(row.scores[n].mean)}" for n in shown}
        for n in shown[:1] if means else shown:
            if (std := row.scores[n].std) is not None:
                scores[n] += f" ±{percent(std)}"
        first, *others = scores.values()
        listed = ", ".join(others)
        text = first + (": " if means else ", ") * bool(listed) + listed
        notes = [*row.marks, *["built-in data"] * (row.scores[shown[0]].source == BUILTIN)]
        yield f"test {text}" + f" ({', '.join(notes)})" * bool(notes)


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
    on_own_sets = {is_own(column) for row in rows for column in row.scores} == {True}
    board_options = f"{shlex.quote(sweep.backbone)}{' --tasks own' * on_own_sets}{options}"
    commands = {f"cse-leaderboard --backbone {board_options}": "all methods"}
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
        commands[f"cse-leaderboard export {sweep.name} DIR{options}"] = "the best model"
    for trial in failed[:MOST_ERRORS]:
        if has_output(board.trial(f"{sweep.name}#{trial.number}"), runs):
            command = f"cse-sweep logs {sweep.name} --trial {trial.number}{options}"
            commands[command] = f"what trial {trial.number} printed"
            break
    if failed:
        commands[f"cse-sweep retry {sweep.name}{options}"] = "try the failed trials again"
    program = Path(sys.argv[0])
    if program.name.startswith("cse-") and shutil.which(program.name) is None:  # not on the path
        folder = program.parent
        commands = {f"{folder}/{command}": purpose for command, purpose in commands.items()}
    yield "next:"
    width = max(map(len, commands))
    yield from (f"  {command:{width}}  # {purpose}" for command, purpose in commands.items())


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
