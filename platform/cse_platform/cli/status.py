"""Print `cse-sweep status`: the progress of each sweep."""

from collections.abc import Sequence

from cse_platform.cli.common import print_json
from cse_platform.launch.outcome import outcome_lines
from cse_platform.launch.sweep_lines import message_line
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.numbers import HASH_DIGITS, clock, percent, short_settings, utc
from cse_platform.presentation.board_columns import STARRED
from cse_platform.presentation.tables import Block, Page, Paragraph, text_table
from cse_platform.presentation.terminal import print_page
from cse_platform.presentation.trial import written_lines
from cse_platform.standard_streams import echo
from cse_platform.tracking.events import DriverMessage

_HEADS = ("sweep", "method", "backbone", "state", "trials", "failed", "best dev", "started", "left")

_RUNNING = ("trial", "key", "started", "step", "dev", "seed", "settings")


SHOWN_MESSAGES = 5
"""The number of the latest messages since the last start that are shown."""


def print_status(url: str, sweep: str | None, *, as_json: bool, options: str) -> None:
    """Print the sweeps of a leaderboard, or one of them with its running trials and its outcome.

    `options` are those that name the leaderboard in a command.
    """
    with open_leaderboard(url) as board:
        overviews = board.sweeps() if sweep is None else [board.sweep(sweep)]
        running = [] if sweep is None else board.running(sweep)
        messages = [] if sweep is None else board.messages(sweep)
        outcome = [] if sweep is None or as_json else outcome_lines(board, sweep, options=options)
    if as_json:
        print_json([overview.as_record() for overview in overviews])
    elif not overviews:
        echo("no sweep yet")
    else:
        table = text_table(_HEADS, [_format_sweep(overview) for overview in overviews])
        print_page(
            [table] if sweep is None else [table, *_make_details(overviews[0], running, messages)]
        )
        for line in outcome:
            echo(line)


def _make_details(
    sweep: SweepOverview, running: Sequence[Trial], messages: Sequence[DriverMessage]
) -> Page:
    texts = [f"tags: {', '.join(sweep.tags)}"] if sweep.tags else []
    texts += [f"{name}: {line}" for name, line in written_lines(sweep.written).items()]
    if sweep.holder is not None and sweep.holder.lives:
        held = sweep.holder
        texts.append(
            f"run by process {held.pid} on {held.host} since {utc(held.since)}, last signal "
            f"{clock(held.silent)} ago; its journal is in {held.folder}"
        )
    if sweep.ended_by:
        texts.append(f"its search ended because its budget is spent: {sweep.ended_by}")
    if sweep.asked:
        texts.append(f"requests not yet received: {', '.join(sweep.asked)}")
    since = [message for message in messages if message.time >= sweep.restarted]
    texts += [f"{utc(each.time)}: {message_line(each)}" for each in since[-SHOWN_MESSAGES:]]
    blocks: list[Block] = [*map(Paragraph, texts)]
    if running and sweep.state == "RUNNING":
        blocks.append(text_table(_RUNNING, [_format_trial(trial) for trial in running]))
    return blocks


def _format_trial(trial: Trial) -> tuple[str, ...]:
    return (
        str(trial.number),
        trial.key[:HASH_DIGITS],
        utc(trial.started),
        "" if trial.last_step is None else str(trial.last_step),
        percent(trial.last_value),
        str(trial.seed),
        short_settings(trial.values),
    )


def _format_sweep(sweep: SweepOverview) -> tuple[str, ...]:
    return (
        f"{sweep.name} {STARRED}" if sweep.written.star else sweep.name,
        sweep.method,
        sweep.backbone,
        sweep.state,
        f"{sweep.ended} of {sweep.planned}",
        str(sweep.counts["FAIL"] or ""),
        percent(sweep.best.value if sweep.best else None),
        utc(sweep.restarted),
        f"about {clock(sweep.left)}" if sweep.left is not None else "",
    )
