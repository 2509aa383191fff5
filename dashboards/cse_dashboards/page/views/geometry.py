"""How embeddings lie in their space: along training, by gold score, and sentence by sentence."""

from flask import Blueprint, render_template, request

from cse_dashboards.page.address import Encoded, GeometryAddress
from cse_dashboards.page.site import reader, site
from cse_dashboards.picture import Picture
from cse_dashboards.pictures.labels import PANELS
from cse_platform.leaderboard.query.board.resolve import named_rows
from cse_platform.leaderboard.row import LeaderboardRow

view = Blueprint("geometry", __name__)

WHAT: dict[Encoded, str] = {
    "heat_map": "Similarities of chosen sentences",
    "projection": "Projection of the STS-B dev sentences",
    "diversity": "Diversity of positives, before and after whitening",
    "case_study": "A query and its targets, ranked",
}


@view.get("/geometry")
def page() -> str:
    """The filters, and the places of all figures."""
    address = _address()
    rows = _rows(address)
    return render_template(
        "geometry.html",
        address=address,
        catalogue=reader().catalogue(),
        rows=rows,
        models=list(_trials(rows)),
        what=WHAT,
    )


@view.get("/parts/numbers/geometry")
def numbers() -> str:
    """What is on the leaderboard already: no model is opened."""
    from cse_dashboards.pictures import methods

    address = _address()
    rows = _rows(address)
    pictures = [
        *methods.plane(reader(), rows),
        methods.buckets(reader(), rows[:PANELS]),
        *methods.ranking_scores(reader(), rows),
    ]
    return render_template("pictures.html", title="Geometry", pictures=pictures)


@view.get("/parts/<any(heat_map, projection, diversity, case_study):what>/geometry")
def encoded(what: Encoded) -> str:
    """What takes the kept models; a picture that could be made is made once."""
    address = _address()
    trials = _trials(_rows(address))
    question = (what, address.model_copy(update={"show": None}))
    with site().encoding:
        picture = site().pictures.known(question, trials) or _drawn(what, address, trials)
    if picture.figure is not None:
        site().pictures.keep(question, trials, picture)
    return render_template("pictures.html", title=picture.title, pictures=[picture])


def _drawn(what: Encoded, address: GeometryAddress, trials: dict[str, str]) -> Picture:
    from cse_dashboards.pictures import embeddings as of

    with of.Embeddings(reader()) as vectors:
        if what == "heat_map":
            lines = map(str.strip, (address.sentences or "").splitlines())
            return of.heat_map(vectors, trials, list(filter(None, lines)))
        if what == "projection":
            return of.projection(vectors, trials, by=address.by)
        if what == "diversity":
            return of.diversity(vectors, trials)
        return of.case_study(vectors, trials, address.query)


def _address() -> GeometryAddress:
    return GeometryAddress.read(request.args.items(multi=True))


def _rows(address: GeometryAddress) -> list[LeaderboardRow]:
    return reader().rows(address.filters, standing=False)


def _trials(rows: list[LeaderboardRow]) -> dict[str, str]:
    """The best trial of each of the first rows, by what the row is called."""
    named = named_rows(rows[:PANELS])
    return {name: row.best_trial for name, row in named.items() if row.best_trial}
