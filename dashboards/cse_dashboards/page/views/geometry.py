"""Geometry of embeddings: along training, by gold score, and sentence by sentence."""

from flask import render_template

from cse_dashboards.figures.labels import PANELS, labelled_rows
from cse_dashboards.figures.picture import Picture
from cse_dashboards.page.address import Encoded, GeometryAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_platform.leaderboard.records import LeaderboardRow

WHAT: dict[Encoded, str] = {
    "heat_map": "Similarities of chosen sentences",
    "projection": "Projection of the STS-B dev sentences",
    "spread": "Uniformity: the STS-B dev sentences on the sphere",
    "diversity": "Diversity of positives, before and after whitening",
    "buckets_stsb_dev": "Cosines of STS-B dev by gold score",
    "case_study": "A query and its targets, ranked",
}


@pages.get("/geometry")
def show_geometry() -> str:
    address = read_address(GeometryAddress)
    rows = _read_rows(address)
    return render_template(
        "geometry.html",
        address=address,
        catalogue=reader().catalogue(),
        rows=rows,
        models=list(_list_best_trials(rows)),
        what=WHAT,
    )


@pages.get("/parts/numbers/geometry")
def geometry_numbers() -> str:
    """Render the figures whose numbers are on the leaderboard; no model is opened."""
    from cse_dashboards.figures.board.buckets import buckets
    from cse_dashboards.figures.board.ranking_scores import ranking_pictures
    from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity

    address = read_address(GeometryAddress)
    rows = _read_rows(address)
    pictures = [
        *alignment_uniformity(reader(), rows),
        buckets(reader(), rows[:PANELS]),
        *ranking_pictures(reader(), rows),
    ]
    return render_template("pictures.html", title="Geometry", pictures=pictures)


@pages.get(f"/parts/<any({', '.join(WHAT)}):what>/geometry")
def geometry_encoded(what: Encoded) -> str:
    """Render a figure that needs kept models; a successful picture is cached."""
    address = read_address(GeometryAddress)
    trials = _list_best_trials(_read_rows(address))
    question = (what, address.model_copy(update={"show": None}))
    with site().encoding:
        picture = site().pictures.known(question, trials) or _draw_encoded(what, address, trials)
    if picture.figure is not None:
        site().pictures.keep(question, trials, picture)
    return render_template("pictures.html", title=picture.title, pictures=[picture])


def _draw_encoded(what: Encoded, address: GeometryAddress, trials: dict[str, str]) -> Picture:
    from cse_dashboards.encoded import Embeddings
    from cse_dashboards.figures.embeddings.case_study import case_study
    from cse_dashboards.figures.embeddings.dev_buckets import dev_buckets
    from cse_dashboards.figures.embeddings.diversity import diversity
    from cse_dashboards.figures.embeddings.heat_map import heat_map
    from cse_dashboards.figures.embeddings.projection import projection
    from cse_dashboards.figures.embeddings.spread import spread

    with Embeddings(reader()) as vectors:
        if what == "heat_map":
            lines = map(str.strip, (address.sentences or "").splitlines())
            return heat_map(vectors, trials, list(filter(None, lines)))
        if what == "projection":
            return projection(vectors, trials, by=address.by)
        if what == "spread":
            return spread(vectors, trials)
        if what == "diversity":
            return diversity(vectors, trials)
        if what == "buckets_stsb_dev":
            return dev_buckets(vectors, trials)
        return case_study(vectors, trials, address.query)


def _read_rows(address: GeometryAddress) -> list[LeaderboardRow]:
    return reader().rows(address.filters, ranked=False)


def _list_best_trials(rows: list[LeaderboardRow]) -> dict[str, str]:
    """Return the best trial of each of the first rows, by the row's label."""
    named = labelled_rows(rows[:PANELS])
    return {name: row.best_trial for name, row in named.items() if row.best_trial}
