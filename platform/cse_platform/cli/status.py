"""Print `cse-sweep status`: the progress of each sweep."""

from cse_platform.cli.common import print_json
from cse_platform.launch.outcome import outcome_lines
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.presentation.sweeps import sweep_page, sweeps_table
from cse_platform.presentation.terminal import print_page
from cse_platform.standard_streams import echo


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
        table = sweeps_table(overviews)
        print_page([table] if sweep is None else sweep_page(overviews[0], running, messages))
        for line in outcome:
            echo(line)
