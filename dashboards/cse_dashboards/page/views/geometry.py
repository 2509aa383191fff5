"""Geometry of embeddings: along training, by gold score, and sentence by sentence."""

from flask import render_template

from cse_dashboards.figures.labels import ENCODED, PANELS, Encoded, trials_with_models
from cse_dashboards.figures.picture import Picture
from cse_dashboards.page.address import GeometryAddress
from cse_dashboards.page.site import pages, read_address, reader, site


@pages.get("/geometry")
def show_geometry() -> str:
    address = read_address(GeometryAddress)
    rows = reader().rows(address.filters, ranked=False)
    return render_template(
        "geometry.html",
        address=address,
        catalogue=reader().catalogue(),
        rows=rows,
        models=list(trials_with_models(reader(), rows)),
        what=ENCODED,
    )


@pages.get("/parts/numbers/geometry")
def geometry_numbers() -> str:
    """Render the figures whose numbers are on the leaderboard; no model is opened."""
    from cse_dashboards.figures.board.buckets import buckets
    from cse_dashboards.figures.board.ranking_scores import ranking_pictures
    from cse_dashboards.figures.training.alignment_uniformity import alignment_uniformity

    address = read_address(GeometryAddress)
    rows = reader().rows(address.filters, ranked=False)
    pictures = [
        *alignment_uniformity(reader(), rows),
        buckets(reader(), rows[:PANELS]),
        *ranking_pictures(reader(), rows),
    ]
    return render_template("pictures.html", title="Geometry", pictures=pictures)


@pages.get(f"/parts/<any({', '.join(ENCODED)}):what>/geometry")
def geometry_encoded(what: Encoded) -> str:
    """Render a figure that needs kept models; a successful picture is cached."""
    address = read_address(GeometryAddress)
    trials = trials_with_models(reader(), reader().rows(address.filters, ranked=False))
    question = (what, address.model_copy(update={"show": None}))
    with site().encoding:
        picture = site().pictures.recall(question, trials) or _draw_encoded(what, address, trials)
    if picture.figure is not None:
        site().pictures.keep(question, trials, picture)
    return render_template("pictures.html", title=picture.title, pictures=[picture])


def _draw_encoded(what: Encoded, address: GeometryAddress, trials: dict[str, str]) -> Picture:
    from cse_dashboards.encoded import Embeddings
    from cse_dashboards.figures.embeddings.pictures import embeddings_picture

    lines = map(str.strip, (address.sentences or "").splitlines())
    return embeddings_picture(
        what,
        Embeddings(reader()),
        trials,
        sentences=list(filter(None, lines)),
        by=address.by,
        query=address.query,
    )
