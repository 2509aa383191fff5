"""Print `cse-sweep status`: the progress of each sweep."""

from cse_platform.cli.common import LeaderboardPlace, print_json
from cse_platform.launch.outcome import outcome_lines
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.presentation.sweeps import sweep_page, sweeps_table
from cse_platform.presentation.terminal import print_page
from cse_platform.standard_streams import echo


def print_status(place: LeaderboardPlace, sweep: str | None, *, as_json: bool) -> None:
    """Print the sweeps of a leaderboard, or one of them with its running trials and its outcome."""
    with open_leaderboard(place.url) as board:
        overviews = board.sweeps() if sweep is None else [board.sweep(sweep)]
        running = [] if sweep is None else board.running(sweep)
        messages = [] if sweep is None else board.messages(sweep)
        outcome = list[str]()
        if sweep is not None and not as_json:
            outcome = outcome_lines(board, sweep, runs=place.folder, options=place.options)
    if as_json:
        print_json([overview.as_record() for overview in overviews])
    elif not overviews:
        echo("no sweep yet")
    else:
        table = sweeps_table(overviews)
        print_page([table] if sweep is None else sweep_page(overviews[0], running, messages))
        for line in outcome:
            echo(line)
