"""What the views share: where the leaderboard is, and the one reader of a request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import cast

from flask import Blueprint, current_app, g, request

from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.study import SearchStudy
from cse_dashboards.page.memory import Memory
from cse_platform.leaderboard.api import Leaderboard, open_leaderboard
from cse_platform.leaderboard.row import LeaderboardRow
from cse_platform.leaderboard.statistics.results import Comparison
from cse_platform.secrets import mask_url

pages = Blueprint("pages", __name__)
"""All addresses of the page; each module of `views` adds its own."""
PART = "X-Part"
"""Header of a request that wants a part of a page alone."""


@dataclass(frozen=True)
class Site:
    """What one server shows."""

    url: str
    published: Sequence[Path] = ()
    mlflow: str | None = None
    """Address of the server that sweeps lead to."""
    standings: Memory[list[LeaderboardRow]] = field(default_factory=Memory)
    comparisons: Memory[Comparison] = field(default_factory=Memory)
    studies: Memory[SearchStudy] = field(default_factory=Memory)
    """Of sweeps, for as long as their trials stay the same."""
    pictures: Memory[Picture] = field(default_factory=Memory)
    """Of embeddings."""
    encoding: Lock = field(default_factory=Lock)
    """Held by the one request that has a model in memory."""

    @property
    def place(self) -> str:
        """The store for people: without a password."""
        return mask_url(self.url)


def site() -> Site:
    """Of the application that answers the request."""
    return cast(Site, current_app.extensions["site"])


def reader() -> Leaderboard:
    """The leaderboard, opened anew for each request: it may have gone or changed meanwhile.

    Raises:
        StoreError: if it cannot be opened.
    """
    if "reader" not in g:
        g.reader = open_leaderboard(site().url, published=site().published)
    return cast(Leaderboard, g.reader)


def close_reader(_error: BaseException | None = None) -> None:
    """At the end of a request."""
    if "reader" in g:
        g.reader.close()


def frame() -> str:
    """The template around what a view tells: a whole page, or nothing around a part."""
    return "bare.html" if PART in request.headers else "page.html"
