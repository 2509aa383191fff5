"""The numbers of a picture as a file: those of the view that it stands in, under `/csv/NAME`."""

from urllib.parse import quote

from flask import Response, current_app, g, request

from cse_dashboards.figures.picture import Picture
from cse_dashboards.page.site import pages
from cse_platform.errors import NotFoundError


def csv_address(picture: Picture) -> str:
    """Of the picture's numbers. They are not in the page itself, which they would double."""
    _shown()[picture.name] = picture
    query = request.query_string.decode()
    return f"/csv/{picture.name}{quote(request.path)}" + (f"?{query}" if query else "")


@pages.get("/csv/<name>/", defaults={"view": ""})
@pages.get("/csv/<name>/<path:view>")
def picture_numbers(name: str, view: str) -> Response:
    """Makes the view again, for its pictures."""
    addresses = current_app.url_map.bind_to_environ(request.environ)
    endpoint, path = addresses.match(f"/{view}", "GET")
    if endpoint != request.endpoint:
        current_app.view_functions[endpoint](**path)
    if name not in _shown():
        raise NotFoundError(f"this view has no figure {name!r} with numbers; load it again")
    answer = Response(_shown()[name].csv, mimetype="text/csv")
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return answer


def _shown() -> dict[str, Picture]:
    """By name, the pictures of the view that is being made."""
    if "pictures" not in g:
        g.pictures = {}
    shown: dict[str, Picture] = g.pictures
    return shown
