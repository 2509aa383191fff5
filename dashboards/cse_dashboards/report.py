"""The report of a sweep: all its figures in one HTML file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cse_dashboards.figures.board.buckets import buckets
from cse_dashboards.figures.board.differences import differences
from cse_dashboards.figures.board.leaderboard import leaderboard_pictures
from cse_dashboards.figures.board.pair_scatter import pair_scatter
from cse_dashboards.figures.board.ranking_scores import ranking_pictures
from cse_dashboards.figures.labels import PANELS, trials_with_models
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.search.effect import hyperparameter_effects
from cse_dashboards.figures.search.history import expected_best_picture, search_history_picture
from cse_dashboards.figures.search.importances import hyperparameter_importances
from cse_dashboards.figures.search.parallel import parallel_coordinates
from cse_dashboards.figures.search.study import StudiedSearch
from cse_dashboards.figures.search.surface import surface
from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity
from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
from cse_dashboards.picture_html import standalone
from cse_methods.data.dev_selection import dev_metric
from cse_platform.errors import QueryError
from cse_platform.leaderboard import Filters, Leaderboard
from cse_platform.leaderboard.families import MTEB, OWN, family_of
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.presentation.board import board_tables
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.formats import to_html

if TYPE_CHECKING:
    from cse_dashboards.encoded import Embeddings

REPORT_CURVES = ("dev/stsb_spearman", "dev/sickr_spearman", "train/loss")
"""Metrics shown in addition to the one that the search climbs."""


@dataclass(frozen=True)
class Chapter:
    """Pictures that belong together."""

    title: str
    pictures: Sequence[Picture]
    table: str = ""
    """HTML to show before the pictures."""


def chapters(
    reader: Leaderboard,
    sweep: str,
    *,
    references: Sequence[str] = (),
    embeddings: "Embeddings | None" = None,
    sentences: Sequence[str] = (),
    query: str | None = None,
) -> Iterator[Chapter]:
    """Yield the chapters of a sweep's report, each as soon as it is made.

    Args:
        reader: the leaderboard.
        sweep: its name.
        references: of rows shown with the sweep's best configuration: METHOD, METHOD@CONFIGURATION
            or the beginning of a key; by default the best of each other method with the same
            backbone and dev sets.
        embeddings: an encoder; without it, the figures that need one are left out.
        sentences: those of the heat map; by default, it chooses its own.
        query: of the case study, a sentence of STS-B dev; by default, it chooses its own.

    Raises:
        StoreError: if the sweep does not exist, or the database fails.
        QueryError: if a chosen row is not exactly one.
    """
    overview, rows = reader.sweep(sweep), rows_of(reader, sweep, references)
    search = StudiedSearch(reader.search(sweep))
    papers = reader.published(backbone=overview.backbone)
    board = to_html(board_tables(Board(rows, family=family_of(rows))))
    yield Chapter("Ranking", leaderboard_pictures(rows, papers), board)
    yield Chapter("Search", tried_pictures(search))
    yield Chapter("Hyperparameters", [*found_pictures(search), surface(search.history)])
    metrics = dict.fromkeys((dev_metric(overview.dev), *REPORT_CURVES))
    curves = [picture for name in metrics for picture in dev_curve_pictures(reader, rows, name)]
    yield Chapter("Dev curves", curves)
    yield Chapter("Beside other methods", list(_draw_beside(reader, rows)))
    if embeddings is not None and rows:
        from cse_dashboards.figures.embeddings.pictures import embeddings_pictures

        trials = trials_with_models(reader, rows)
        made = embeddings_pictures(embeddings, trials, sentences=sentences, query=query)
        yield Chapter("Embeddings", list(made))


def rows_of(
    reader: Leaderboard, sweep: str, references: Sequence[str] = ()
) -> list[LeaderboardRow]:
    """Return the sweep's best row, then those of `references`, or the best of each other method.

    They have the scores of the main families or, if the sweep has none, of mteb's tasks or of own
    test sets. Empty until a trial of the sweep is complete. Raises StoreError for an unknown sweep.
    """
    method = reader.sweep(sweep).method
    for tasks in (None, MTEB, OWN):
        own = reader.rows(Filters(sweep=sweep), tasks=tasks, ranked=False, sort="dev")[:1]
        if own and own[0].scores:
            break
    if not own:
        return []
    if references:
        return own + [
            reader.row(reference, Filters(backbone=own[0].backbone), tasks=tasks or "sts")[1]
            for reference in references
        ]
    rivals = reader.rows(Filters(backbone=own[0].backbone), tasks=tasks, ranked=False)
    return own + [
        row for row in rivals if row.method != method and row.dev.identity == own[0].dev.identity
    ]


def render_report(
    overview: SweepOverview, parts: Sequence[Chapter], *, library: str | None = None
) -> str:
    """Render these chapters as one HTML document that needs no network.

    `library` is the path of Plotly relative to the document; by default, the document embeds it.
    """
    counts = ", ".join(f"{n} {state.lower()}" for state, n in overview.counts.items() if n)
    lead = (
        f"{overview.method} on {overview.backbone}: {overview.state.lower()}, "
        f"{overview.trials} of {overview.planned} trials ({counts or 'none yet'}), "
        f"started {overview.started:%Y-%m-%d %H:%M} UTC."
    )
    return render_document(f"Sweep {overview.name}", parts, lead=lead, library=library)


def render_document(
    title: str, parts: Sequence[Chapter], *, lead: str = "", library: str | None
) -> str:
    """Render chapters as one HTML document, with Plotly at the path `library` or embedded."""
    template = standalone().get_template("report.html")
    return template.render(title=title, lead=lead, chapters=parts, library=library)


def tried_pictures(search: StudiedSearch) -> list[Picture]:
    """Make the figures of what a search has tried."""
    return [parallel_coordinates(search), search_history_picture(search)]


def found_pictures(search: StudiedSearch) -> list[Picture]:
    """Make the figures of what a search has found, and what more trials would bring."""
    effects = hyperparameter_effects(search.history)
    return [hyperparameter_importances(search), *effects, expected_best_picture(search)]


def _draw_beside(reader: Leaderboard, rows: Sequence[LeaderboardRow]) -> Iterator[Picture]:
    """Draw the figures that need, or profit from, several methods."""
    yield from alignment_uniformity(reader, rows)
    yield from ranking_pictures(reader, rows)
    yield buckets(reader, rows[:PANELS])
    if len(rows) < 2:
        return
    own, rival = rows[0], next((row for row in rows[1:] if row.scores), rows[1])
    a, b = ((row.reference, row) for row in (own, rival))
    try:
        yield differences(reader.compare(a, b, tasks=family_of(rows)))
    except QueryError as error:
        title = f"{own.method} against {rival.method}"
        yield Picture("differences", title, "Difference on each task.", missing=str(error))
    else:
        yield pair_scatter(reader, own, rival, "stsb")
