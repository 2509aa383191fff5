"""Figures of a sweep's search; slow ones are cached until a trial starts or ends.

While a sweep runs, the page shows cached figures, and new ones are made in the background.
"""

from collections.abc import Callable, Hashable, Sequence

from flask import render_template

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.study import ReplayedSearch
from cse_dashboards.page.address import SweepAddress
from cse_dashboards.page.site import (
    Memory,
    SearchPart,
    pages,
    read_address,
    read_overview,
    reader,
    site,
)
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.sweeps import SweepOverview


@pages.get("/parts/search/sweeps/<name>")
def sweep_search(name: str) -> str:
    """Render history, importances and slices."""
    address = read_address(SweepAddress, name=name)
    return _render_part("search", "Search", address, _make_search_pictures(address, site().studies))


@pages.get("/parts/hyperparameters/sweeps/<name>")
def sweep_hyperparameters(name: str) -> str:
    return _render_part(
        "hyperparameters",
        "Hyperparameters",
        read_address(SweepAddress, name=name),
        _make_effect_pictures,
    )


@pages.get("/parts/pair/sweeps/<name>")
def sweep_pair(name: str) -> str:
    """Render the score over two hyperparameters."""
    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    names = list(_replay_search(site().studies, reader(), address, overview).history.space)
    for side in (address.x, address.y):
        if side is not None and side not in names:
            raise AddressError(
                f"{side!r} is not a hyperparameter that {name} searches; "
                f"it searches {', '.join(names) or 'none'}"
            )
    part = _load_search_part(
        f"pair {address.x} {address.y}", address, overview, _make_pair_pictures(address)
    )
    return render_template(
        "sweep_pair.html", address=address, names=names, overview=overview, **vars(part)
    )


Told = tuple[list[Picture], Sequence[str]]
"""Figures of a search, and sentences about it."""
Make = Callable[[Leaderboard, ReplayedSearch, SweepOverview], Told]
"""Makes the figures; it may run outside of a request."""


def _make_search_pictures(address: SweepAddress, studies: Memory[ReplayedSearch]) -> Make:
    def make(board: Leaderboard, study: ReplayedSearch, overview: SweepOverview) -> Told:
        from cse_dashboards.report import search_pictures
        from cse_platform.search.findings import format_findings

        unfiltered = _replay_search(
            studies, board, address.model_copy(update={"where": ""}), overview
        )
        sentences = [] if study.findings is None else format_findings(study.findings)
        return search_pictures(board, overview, study, unfiltered, address.conditions), sentences

    return make


def _make_effect_pictures(
    _board: Leaderboard, study: ReplayedSearch, _overview: SweepOverview
) -> Told:
    from cse_dashboards.figures.search.effect import hyperparameter_effects

    return hyperparameter_effects(study.history), ()


def _make_pair_pictures(address: SweepAddress) -> Make:
    def make(_board: Leaderboard, study: ReplayedSearch, _overview: SweepOverview) -> Told:
        from cse_dashboards.figures.search.contour import contour
        from cse_dashboards.figures.search.surface import surface

        x, y = address.x, address.y
        return [contour(study, x=x, y=y), surface(study.history, x=x, y=y)], ()

    return make


def _render_part(part: str, title: str, address: SweepAddress, make: Make) -> str:
    overview = read_overview(address.name)
    search_part = _load_search_part(part, address, overview, make)
    return render_template(
        "pictures.html",
        title=title,
        address=address,
        overview=overview,
        newer=True,
        **vars(search_part),
    )


def _load_search_part(
    part: str, address: SweepAddress, overview: SweepOverview, make: Make
) -> SearchPart:
    """Return cached figures at once, even if they are stale; make them if there are none."""
    board, studies = reader(), site().studies

    def compute() -> SearchPart:
        study = _replay_search(studies, board, address, overview)
        pictures, sentences = make(board, study, overview)
        return SearchPart(pictures, overview.ended, sentences)

    question = (part, address.name, address.where)
    return site().searches.ask_stale(question, _stamp_search(overview), compute)


def _replay_search(
    studies: Memory[ReplayedSearch],
    board: Leaderboard,
    address: SweepAddress,
    overview: SweepOverview,
) -> ReplayedSearch:
    """Read the search of the trials that match the filter; the parts of a page share it."""
    return studies.ask(
        (address.name, address.where),
        _stamp_search(overview),
        lambda: ReplayedSearch(board.search(address.name, where=address.conditions)),
    )


def _stamp_search(overview: SweepOverview) -> Hashable:
    """Identify the state of a search; it changes when a trial starts or ends."""
    return (*overview.counts.items(), overview.planned, overview.restarted, overview.finished)
