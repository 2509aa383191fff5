"""One row against another: how far apart, how sure, along training, and pair by pair."""

from typing import get_args

from flask import render_template

from cse_dashboards.errors import AddressError
from cse_dashboards.page.address import CompareAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.data.dev_selection import dev_metric
from cse_methods.tasks import STS_TASKS
from cse_platform.leaderboard.query.board.resolve import shared_tasks
from cse_platform.leaderboard.render.board import short_hash
from cse_platform.leaderboard.render.comparison import comparison_table
from cse_platform.leaderboard.row import FamilyName, LeaderboardRow


@pages.get("/compare")
def show_compare() -> str:
    """The form, and where both are chosen the places of what takes longer."""
    address = read_address(CompareAddress)
    shared: list[str] = []
    unscored: list[str] = []
    if address.a and address.b:
        rows = _rows(address)
        shared = _shared(address, rows)
        named = zip((address.a, address.b), rows, strict=True)
        unscored = [name for name, row in named if not row.scores]
    ours = reader().rows(address.filters, tasks=address.tasks, ranked=False)
    return render_template(
        "compare.html",
        address=address,
        catalogue=reader().catalogue(),
        families=get_args(FamilyName),
        known=[f"{row.method}@{short_hash(row)}" for row in ours],
        shared=shared,
        unscored=unscored,
        chosen=bool(address.a and address.b),
    )


@pages.get("/parts/differences/compare")
def compare_differences() -> str:
    address = _both()
    from cse_dashboards.figures.board.differences import differences

    a, b = str(address.a), str(address.b)
    comparison = site().comparisons.ask(
        address.model_copy(update={"task": None}),
        _rows(address),
        lambda: reader().compare(a, b, address.filters, tasks=address.tasks),
    )
    return render_template(
        "compare_differences.html",
        table=comparison_table(comparison),
        figure=differences(comparison),
    )


@pages.get("/parts/curves/compare")
def compare_curves() -> str:
    from cse_dashboards.figures.training.dev_curves import dev_curve_pictures

    address = _both()
    rows = _rows(address)
    metrics = dict.fromkeys(dev_metric(row.dev.search) for row in rows)
    pictures = [one for metric in metrics for one in dev_curve_pictures(reader(), rows, metric)]
    return render_template("pictures.html", title="Dev curves", pictures=pictures)


@pages.get("/parts/pairs/compare")
def compare_pairs() -> str:
    address = _both()
    rows = _rows(address)
    shared = _shared(address, rows)
    if address.task is not None and address.task not in shared:
        raise AddressError(
            f"{address.task!r} is no STS task that both are scored on; these are "
            f"{', '.join(shared) or 'none'}"
        )
    from cse_dashboards.figures.board.pair_scatter import pair_scatter

    task = address.task or next(iter(shared), None)
    pictures = [pair_scatter(reader(), *rows, task)] if task else []
    return render_template("pictures.html", title="Pairs", pictures=pictures)


def _both() -> CompareAddress:
    address = read_address(CompareAddress)
    if not (address.a and address.b):
        raise AddressError("a comparison takes two rows, a and b")
    return address


def _rows(address: CompareAddress) -> tuple[LeaderboardRow, LeaderboardRow]:
    a, b = (
        reader().row(str(one), address.filters, tasks=address.tasks)[1]
        for one in (address.a, address.b)
    )
    return a, b


def _shared(address: CompareAddress, rows: tuple[LeaderboardRow, LeaderboardRow]) -> list[str]:
    """The tasks of pairs that both are scored on."""
    tasks, _ = shared_tasks(dict(zip("AB", rows, strict=True)), address.tasks)
    return [task for task in tasks if task in STS_TASKS]
