"""The report of a sweep: all its figures in one HTML file."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.board.buckets import buckets
from cse_dashboards.figures.board.differences import differences
from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.board.pair_scatter import pair_scatter
from cse_dashboards.figures.board.ranking_scores import ranking_pictures
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.dev_buckets import dev_buckets
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import projection
from cse_dashboards.figures.embeddings.sentences import Trials, dev_of, vectors_of
from cse_dashboards.figures.embeddings.spread import spread
from cse_dashboards.figures.labels import PANELS, labelled_rows
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.effect import hyperparameter_effects
from cse_dashboards.figures.search.expected import expected_best_picture
from cse_dashboards.figures.search.front import pareto_front_picture
from cse_dashboards.figures.search.history import search_history_picture
from cse_dashboards.figures.search.importances import hyperparameter_importances
from cse_dashboards.figures.search.parallel import parallel_coordinates
from cse_dashboards.figures.search.study import StudiedSearch
from cse_dashboards.figures.search.surface import surface
from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_dashboards.picture_html import standalone
from cse_methods.data.dev_selection import dev_metric
from cse_methods.errors import CseError
from cse_platform.errors import QueryError
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.board_tables import board_tables
from cse_platform.leaderboard.columns import Board
from cse_platform.leaderboard.records import LeaderboardRow, family_of
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.render.text import to_html

if TYPE_CHECKING:
    from cse_dashboards.encoded import Embeddings

REPORT_CURVES = ("dev/stsb_spearman", "dev/sickr_spearman", "train/loss")
"""Metrics shown in addition to the one that the search climbs."""


@dataclass(frozen=True)
class Chapter:
    """Pictures that belong together."""

    title: str
    pictures: tuple[Picture, ...]
    table: str = ""
    """HTML to show before the pictures."""

    @property
    def name(self) -> str:
        """The name of its file: lower case and `_`."""
        return self.title.lower().replace(" ", "_")


@dataclass(frozen=True)
class Choices:
    """A user's choices for a report; by default, each figure chooses for itself."""

    beside: tuple[str, ...] = ()
    """Rows shown with the sweep's best: METHOD, METHOD@CONFIGURATION or the beginning of a key."""
    sentences: tuple[str, ...] = ()
    """Sentences of the heat map."""
    query: str | None = None
    """The query of the case study: a sentence of STS-B dev."""


NOTHING_CHOSEN = Choices()


def chapters(
    reader: Leaderboard,
    sweep: str,
    *,
    embeddings: "Embeddings | None" = None,
    choices: Choices = NOTHING_CHOSEN,
) -> Iterator[Chapter]:
    """Yield the chapters of a sweep's report, each as soon as it is made.

    The sweep's best configuration is shown with the chosen rows, by default the best of each other
    method with the same backbone and dev sets. Without `embeddings`, the figures that need an
    encoder are left out.

    Raises:
        StoreError: if the sweep does not exist, or the database fails.
        QueryError: if a chosen row is not exactly one.
    """
    overview, rows = reader.sweep(sweep), rows_of(reader, sweep, choices.beside)
    search = StudiedSearch(reader.search(sweep))
    papers = reader.published(backbone=overview.backbone)
    yield Chapter("Ranking", tuple(leaderboard_pictures(rows, papers)), _render_board(rows))
    yield Chapter("Search", tuple(search_pictures(reader, overview, search)))
    yield Chapter(
        "Hyperparameters", (*hyperparameter_effects(search.history), surface(search.history))
    )
    metrics = dict.fromkeys((dev_metric(overview.dev), *REPORT_CURVES))
    yield Chapter(
        "Dev curves",
        tuple(picture for name in metrics for picture in dev_curve_pictures(reader, rows, name)),
    )
    yield Chapter("Beside other methods", tuple(_draw_beside(reader, rows)))
    if embeddings is not None and rows:
        named = labelled_rows(rows[:PANELS])
        trials = {name: best for name, row in named.items() if (best := row.best_trial)}
        pictures = embeddings_pictures(
            embeddings, trials, sentences=choices.sentences, query=choices.query
        )
        yield Chapter("Embeddings", tuple(pictures))


def rows_of(reader: Leaderboard, sweep: str, beside: Sequence[str] = ()) -> list[LeaderboardRow]:
    """Return the sweep's best configuration, then the best of each other method, or `beside`.

    Empty until a trial of the sweep is complete. Raises StoreError for an unknown sweep.
    """
    method = reader.sweep(sweep).method
    own = reader.rows(Filters(sweep=sweep), ranked=False, sort="dev")[:1]
    if not own:
        return []
    if beside:
        return own + [
            reader.row(reference, Filters(backbone=own[0].backbone))[1] for reference in beside
        ]
    rivals = reader.rows(Filters(backbone=own[0].backbone), ranked=False)
    return own + [
        row for row in rivals if row.method != method and row.dev.identity == own[0].dev.identity
    ]


def render_report(
    overview: SweepOverview, parts: Sequence[Chapter], *, library: str | None = None
) -> str:
    """Render these chapters as one HTML document that needs no network.

    `library` is the path of Plotly relative to the document; by default, the document embeds it.
    """
    return _render_document(f"Sweep {overview.name}", _describe_sweep(overview), parts, library)


def render_picture(picture: Picture, *, library: str) -> str:
    return _render_document(picture.title, [], [Chapter("", (picture,))], library)


def search_pictures(
    reader: Leaderboard, overview: SweepOverview, search: StudiedSearch
) -> list[Picture]:
    """Make the figures of a sweep's search."""
    several = overview.objectives
    return [
        search_history_picture(search),
        *([pareto_front_picture(reader.front(overview.name))] if several else []),
        expected_best_picture(search),
        parallel_coordinates(search),
        hyperparameter_importances(search),
    ]


def _draw_beside(reader: Leaderboard, rows: Sequence[LeaderboardRow]) -> Iterator[Picture]:
    """Draw the figures that need, or profit from, several methods."""
    yield from alignment_uniformity(reader, rows)
    yield from ranking_pictures(reader, rows)
    yield buckets(reader, rows[:PANELS])
    if len(rows) > 1:
        yield from _compare_rows(reader, rows[0], next((r for r in rows[1:] if r.scores), rows[1]))


def _compare_rows(
    reader: Leaderboard, own: LeaderboardRow, rival: LeaderboardRow
) -> Iterator[Picture]:
    a, b = (f"{row.method}@{row.configuration.hash}" for row in (own, rival))
    try:
        yield differences(reader.compare(a, b))
    except QueryError as error:
        title = f"{own.method} against {rival.method}"
        yield Picture("differences", title, "Difference on each task.", missing=str(error))
    else:
        yield pair_scatter(reader, own, rival, "stsb")


def _render_board(rows: Sequence[LeaderboardRow]) -> str:
    return to_html(board_tables(Board(rows, family=family_of(rows)), wide=False))


def _describe_sweep(overview: SweepOverview) -> list[str]:
    counts = ", ".join(f"{n} {state.lower()}" for state, n in overview.counts.items() if n)
    return [
        f"{overview.method} on {overview.backbone}: {overview.state.lower()}, "
        f"{overview.trials} of {overview.planned} trials ({counts or 'none yet'}), "
        f"started {overview.started:%Y-%m-%d %H:%M} UTC."
    ]


def _render_document(
    title: str, lead: Sequence[str], parts: Sequence[Chapter], library: str | None
) -> str:
    template = standalone().get_template("report.html")
    return template.render(title=title, lead=lead, chapters=parts, library=library)


def embeddings_pictures(
    embeddings: Embeddings,
    trials: Trials,
    *,
    sentences: Sequence[str] = (),
    query: str | None = None,
) -> Iterator[Picture]:
    """Make all figures of embeddings; the projection uses UMAP if it is installed.

    Each model is opened once, the first one twice. `sentences` are for the heat map, `query` is for
    the case study; by default, each figure chooses its own.
    """
    with suppress(CseError):  # each picture reports it
        dev = dev_of(embeddings, trials)
        vectors_of(embeddings, trials, [*dev.first, *dev.second, *sentences])
    yield heat_map(embeddings, trials, sentences)
    yield projection(embeddings, trials, by="umap" if find_spec("umap") else "pca")
    yield spread(embeddings, trials)
    yield diversity(embeddings, trials)
    yield dev_buckets(embeddings, trials)
    yield case_study(embeddings, trials, query)
