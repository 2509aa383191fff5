"""Figures of a sweep's search; slow ones are cached until its trials change.

While a sweep runs, the page shows cached figures, and new ones are made in the background.
"""

from collections.abc import Callable, Sequence
from typing import Any

from flask import render_template

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.study import StudiedSearch
from cse_dashboards.page.address import SweepAddress
from cse_dashboards.page.site import pages, read_address, read_overview, read_version, reader, site


@pages.get("/parts/search/sweeps/<name>")
def sweep_search(name: str) -> str:
    """Render parallel coordinates and the search history."""
    from cse_dashboards.report import tried_pictures

    return _render_part(name, "search", lambda search: (tried_pictures(search), ()))


@pages.get("/parts/hyperparameters/sweeps/<name>")
def sweep_hyperparameters(name: str) -> str:
    """Render the findings of the search, with importances, effects and the expected best."""
    from cse_dashboards.report import found_pictures
    from cse_platform.search.findings import format_findings

    def make(search: StudiedSearch) -> tuple[list[Picture], Sequence[str]]:
        sentences = [] if search.findings is None else format_findings(search.findings)
        return found_pictures(search), sentences

    return _render_part(name, "hyperparameters", make)


@pages.get("/parts/pair/sweeps/<name>")
def sweep_pair(name: str) -> str:
    """Render the score over two hyperparameters."""
    from cse_dashboards.figures.search.surface import surface

    address = read_address(SweepAddress, name=name)
    names = list(_read_search(address).history.space)
    for side in (address.x, address.y):
        if side is not None and side not in names:
            raise AddressError(
                f"{side!r} is not a hyperparameter that {name} searches; "
                f"it searches {', '.join(names) or 'none'}"
            )
    return _render_part(
        name,
        f"pair {address.x} {address.y}",
        lambda search: ([surface(search.history, address.x, address.y)], ()),
        template="sweep_pair.html",
        names=names,
    )


def _render_part(
    name: str,
    part: str,
    make: Callable[[StudiedSearch], tuple[list[Picture], Sequence[str]]],
    *,
    template: str = "pictures.html",
    **given: Any,
) -> str:
    """Render cached figures of a sweep at once, even if they are stale; `make` makes new ones.

    `make` returns figures and sentences about the search, and may run outside of a request.
    """
    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    search, searches = _read_search(address), site().searches
    ask = searches.ask_stale if overview.state == "RUNNING" else searches.ask
    pictures, said, trials = ask(
        (part, name, address.where), search.history, lambda: (*make(search), overview.ended)
    )
    given |= {"pictures": pictures, "said": said, "trials": trials, "newer": True}
    title = f"{name}: {part.partition(' ')[0]}"
    return render_template(template, title=title, address=address, overview=overview, **given)


def _read_search(address: SweepAddress) -> StudiedSearch:
    """Read the trials that match the filter; parts of a page share them."""
    return site().studies.ask(
        (address.name, address.where),
        read_version(),
        lambda: StudiedSearch(reader().search(address.name, conditions=address.conditions)),
    )
