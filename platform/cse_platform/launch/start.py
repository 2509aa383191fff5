"""Starts a sweep's file once this environment has what it needs: from Python, or for the command.

It imports no Ray, which can lack a part that the platform needs.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from cse_platform.launch import RUNS
from cse_platform.private_hooks import refuse_missing_hooks

if TYPE_CHECKING:
    from cse_platform.leaderboard.records import LeaderboardRow
    from cse_platform.sweep.file import DraftFile
    from cse_platform.sweep.spec import SweepSpec


def run_sweep(
    sweep: "SweepSpec | Path | str",
    *,
    runs: Path | str = RUNS,
    address: str | None = None,
    ship: bool = True,
) -> "list[LeaderboardRow]":
    """Run a sweep from Python as `cse-sweep` does, with the same checks, journal and output.

    The same call resumes a sweep that was interrupted, and extends one whose budget was raised.

    Args:
        sweep: a `SweepSpec`, or the path of a sweep file. Relative paths in a `SweepSpec` start at
            the working directory.
        runs: folder for journals, checkpoints and databases.
        address: address of a Ray cluster; None starts Ray on this machine.
        ship: whether the code is sent to the cluster's nodes.

    Returns:
        The leaderboard's row of the best configuration, over its seeds; several rows if its trials
        were evaluated under several identities. For a file with stages, that of the last stage.

    Raises:
        SweepFileError: if the sweep is invalid; names every problem.
        SweepRefusedError: if the sweep cannot run, or completed no trial.
        KeyboardInterrupt: if the sweep was interrupted; its stores and its journal are closed.
    """
    from cse_methods.files.named import expand
    from cse_platform.leaderboard.api import open_leaderboard
    from cse_platform.leaderboard.filters import Filters
    from cse_platform.sweep.file import draft_sweep, read_draft
    from cse_platform.sweep.stores import sweep_stores

    runs = Path(expand(str(runs)))
    draft = read_draft(Path(sweep)) if isinstance(sweep, str | Path) else draft_sweep(sweep)
    start_file(draft, runs=runs, address=address, ship=ship, offline=False, reuse=True)
    last = draft.stages[-1].spec
    with open_leaderboard(sweep_stores(last, runs=runs).leaderboard) as board:
        return board.rows(Filters(sweep=last.sweep))


def start_file(
    draft: "DraftFile",
    *,
    runs: Path,
    address: str | None,
    ship: bool,
    offline: bool,
    reuse: bool,
    rehearse: bool = False,
) -> None:
    """Run each sweep of a file, or rehearse the file, unless Ray or Optuna lacks a needed part.

    Raises as `run_file` and `rehearse_file` do, and SweepRefusedError for such a part.
    """
    from cse_platform.sweep.samplers import Auto, Gp

    samplers = [stage.spec.search.sampler for stage in draft.stages]
    refuse_missing_hooks(gaussian_process=any(isinstance(s, Auto | Gp) for s in samplers))
    if rehearse:
        from cse_platform.launch.rehearse import rehearse_file as start
    else:
        from cse_platform.launch.run import run_file as start
    start(draft, runs=runs, address=address, ship=ship, offline=offline, reuse=reuse)
