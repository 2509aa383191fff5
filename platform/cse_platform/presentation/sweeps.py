"""The progress of sweeps: a table of all, and what one of them is doing."""

from collections.abc import Sequence

from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.numbers import HASH_DIGITS, clock, format_count, percent, short_settings, utc
from cse_platform.presentation.board_columns import STARRED
from cse_platform.presentation.tables import Block, Page, Paragraph, Table, text_table
from cse_platform.presentation.trial import written_lines
from cse_platform.tracking.events import DriverMessage

_HEADS = (
    *("sweep", "method", "backbone", "state", "trials", "failed"),
    *("best dev", "last started", "left"),
)
_UNFINISHED = ("trial", "key", "started", "step", "dev", "best", "seed", "settings")


GOES_ON = "unfinished, to go on at the next start"
"""The state of a trial that has not ended, of a sweep that no driver runs."""
SHOWN_MESSAGES = 5
"""The number of the latest messages since the last start that are shown."""


def sweeps_table(sweeps: Sequence[SweepOverview]) -> Table:
    """Make a table with a line for each sweep."""
    return text_table(_HEADS, [_format_sweep(sweep) for sweep in sweeps])


def sweep_page(
    sweep: SweepOverview, unfinished: Sequence[Trial], messages: Sequence[DriverMessage]
) -> Page:
    """Make the page of a sweep: its line, what is known of its driver, and its trials that have
    not ended, with the best dev score of each so far.
    """
    texts = [f"tags: {', '.join(sweep.tags)}"] if sweep.tags else []
    texts += [f"{name}: {line}" for name, line in written_lines(sweep.written).items()]
    if sweep.holder is not None and sweep.holder.lives:
        owner = sweep.holder
        texts.append(
            f"run by process {owner.pid} on {owner.host} since {utc(owner.since)}, last signal "
            f"{clock(owner.silent)} ago; its journal is in {owner.folder}"
        )
    if sweep.at_most is not None and sweep.state == "RUNNING":
        texts.append(f"runs at most {format_count(sweep.at_most, 'trial')} at once")
    if sweep.ended_by:
        texts.append(f"its search ended because its budget is spent: {sweep.ended_by}")
    if sweep.asked:
        texts.append(f"requests not yet received: {', '.join(sweep.asked)}")
    if sweep.acting:
        texts.append(f"requests being carried out: {', '.join(sweep.acting)}")
    since = [message for message in messages if message.time >= sweep.restarted]
    texts += [f"{utc(each.time)}: {message_line(each)}" for each in since[-SHOWN_MESSAGES:]]
    blocks: list[Block] = [sweeps_table([sweep]), *map(Paragraph, texts)]
    is_on = sweep.state == "RUNNING"
    groups = {
        "": [trial for trial in unfinished if is_on and not trial.why],
        "cut off, waiting to go on:": [trial for trial in unfinished if is_on and trial.why],
        f"{GOES_ON}:": [] if is_on else unfinished,
    }
    for title, trials in groups.items():
        if trials:
            blocks += [Paragraph(title)] if title else []
            blocks.append(text_table(_UNFINISHED, [_format_trial(trial) for trial in trials]))
    return blocks


def _format_trial(trial: Trial) -> tuple[str, ...]:
    return (
        str(trial.number),
        trial.key[:HASH_DIGITS],
        utc(trial.started),
        "" if trial.last_step is None else str(trial.last_step),
        percent(trial.last_value),
        percent(trial.best_value),
        str(trial.seed),
        short_settings(trial.searched_values),
    )


def _format_sweep(sweep: SweepOverview) -> tuple[str, ...]:
    stops = "stop" in (*sweep.asked, *sweep.acting)
    doing = "stopping" if stops else "scoring on test sets" if sweep.scoring else ""
    return (
        f"{sweep.name} {STARRED}" if sweep.written.star else sweep.name,
        sweep.method,
        sweep.backbone,
        f"{sweep.state}, {doing}" if doing else sweep.state,
        f"{sweep.ended} of {sweep.planned}",
        str(sweep.counts["FAIL"] or ""),
        percent(sweep.best.best_value if sweep.best else None),
        utc(sweep.restarted),
        f"about {clock(sweep.left)}" if sweep.left is not None else "",
    )


def message_line(message: DriverMessage) -> str:
    """Format a driver's message."""
    return f"Error: {message.text}" if message.level == "error" else message.text
