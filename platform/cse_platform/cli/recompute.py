"""cse-leaderboard recompute: clean scores of past trials, from their stored similarities."""

from pathlib import Path

import click

from cse_platform.cli.common import CONTEXT, leaderboard_and_runs, shows_errors, store_options
from cse_platform.standard_streams import echo

SHOWN = 5
"""The most trial keys that a message names; further ones are counted."""


@click.command("recompute", context_settings=CONTEXT)
@click.option(
    "--data",
    help="Where to read sets that are not built in: `hub`, or a folder in the SentEval layout.  "
    "[env var: CSE_DATA]",
)
@store_options
@shows_errors
def recompute_command(data: str | None, runs: Path | None, store: str | None) -> None:
    """Compute clean scores of trials from stored similarities.

    A clean score leaves out the rows of an STS test set whose pair is also in a dev set that chose
    the trial, or in an earlier one of the seven test sets. `cse-leaderboard --tasks clean` shows
    clean scores. New evaluations compute them anyway; this command adds them to past trials,
    without opening a model. It records for each trial that its test sets were used. Trials that
    have clean scores are skipped, so you can run the command again after an interruption.

    \b
    Examples:
        cse-leaderboard recompute
        cse-leaderboard recompute --data ./data --runs runs
    """
    from cse_platform.errors import QueryError
    from cse_platform.recompute import recompute
    from cse_platform.render.terminal import progress_bar

    url, folder = leaderboard_and_runs(runs, store)
    with progress_bar("recomputing") as move:
        done = recompute(
            url,
            runs=folder,
            data=data,
            progress=lambda completed, total: move(completed=completed, total=total),
        )
    echo(f"Clean scores: {done.trials} trials new")
    problems = [f"{_name_trials(keys)}: {reason}" for reason, keys in done.refused.items()]
    if done.without_similarities:
        problems.append(
            f"{_name_trials(done.without_similarities)}: no stored similarities; `cse-evaluate "
            f"{done.without_similarities[0][:8]} --tasks sts` scores such a trial anew and stores "
            "them"
        )
    if problems:
        raise QueryError("no clean scores for " + "; nor for ".join(problems))


def _name_trials(keys: list[str]) -> str:
    named = ", ".join(key[:8] for key in keys[:SHOWN])
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return f"trial{'s' if len(keys) > 1 else ''} {named}{more}"
