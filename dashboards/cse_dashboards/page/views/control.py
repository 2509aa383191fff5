"""Views that change something: notes, tags, stars, and requests to sweeps.

They refuse all requests unless the page was started with `--allow-control`. After a form is sent,
the browser is redirected to the page of the form, which shows the outcome.
"""

from collections.abc import Callable
from functools import partial
from textwrap import shorten
from urllib.parse import quote

from flask import Blueprint, abort, flash, redirect, render_template, request
from werkzeug.wrappers import Response as BaseResponse

from cse_dashboards.errors import AddressError
from cse_dashboards.page.address import StopAddress
from cse_dashboards.page.site import read_address, read_overview, reader, site
from cse_methods.errors import CseError
from cse_platform.control.annotations import annotate
from cse_platform.control.requests import send_request
from cse_platform.leaderboard.records import Annotations
from cse_platform.numbers import read_count

controls = Blueprint("controls", __name__)
SAID = 1000
"""Most characters of a refusal: it is kept in a cookie, and browsers drop long ones."""


@controls.before_request
def _check_admission() -> None:
    control = site().control
    if control is None:
        abort(403, "This page is read-only; start another with cse-dashboard --allow-control.")
    control.refuse_others()


@controls.get("/sweeps/<name>/stop")
def confirm_stop(name: str) -> str:
    """Ask for confirmation before a sweep, or one of its trials, is stopped."""
    address = read_address(StopAddress, name=name)
    return render_template("stop.html", address=address, overview=read_overview(name))


@controls.post("/sweeps/<name>/annotation")
def annotate_sweep(name: str) -> BaseResponse:
    """Write the note, the tags and the star of a sweep."""
    written = read_overview(name).written
    return _act_and_redirect(
        partial(_write_annotation, name, written), f"/sweeps/{quote(name, safe='')}"
    )


@controls.post("/trials/<key>/annotation", defaults={"whole": False})
@controls.post("/trials/<key>/configuration/annotation", defaults={"whole": True})
def annotate_trial(key: str, whole: bool) -> BaseResponse:
    """Write the note, the tags and the star of a trial, or of its whole configuration."""
    details = reader().trial(key)
    reference, before = details.key, details.written
    if whole:
        reference = f"{details.method}@{details.configuration.hash}"
        before = details.of_configuration
    return _act_and_redirect(
        partial(_write_annotation, reference, before), f"/trials/{details.key}"
    )


@controls.post("/sweeps/<name>/request")
def ask_sweep(name: str) -> BaseResponse:
    """Send a sweep the request of a button, as `cse-sweep stop`, `retry` and so on do."""
    form, ask = request.form, partial(send_request, site().opened.url, name)

    def send() -> str:
        numbers = list[int]()
        for word in form.get("trials", "").split():
            if (number := read_count(word)) is None:
                raise AddressError(f"expected a trial's number, got {word!r}")
            numbers.append(number)
        match form.get("request"):
            case "stop" | "retry" as wanted:
                outcome = ask(wanted, numbers=numbers)
            case "enqueue":
                given = {k.removeprefix("set."): v for k, v in form.items() if k.startswith("set.")}
                settings = [f"{k}={v}" for k, v in given.items() if v.strip()]
                outcome = ask("enqueue", settings=settings)
            case other:
                abort(400, f"There is no request {other!r}.")
        return f"{outcome[0].upper()}{outcome[1:]}."

    return _act_and_redirect(send, f"/sweeps/{quote(name, safe='')}")


def _act_and_redirect(act: Callable[[], str], back: str) -> BaseResponse:
    """Act, flash the outcome or the refusal, and redirect back."""
    try:
        flash(act(), "done")
    except CseError as error:
        flash(shorten(str(error), SAID, placeholder="…"), "refused")
    return redirect(back, 303)


def _write_annotation(reference: str, before: Annotations) -> str:
    """Write the fields that have changed."""
    control, form = site().control, request.form
    assert control is not None
    note = form.get("note", "").strip().replace("\r\n", "\n")
    words = set(form.get("tags", "").replace(",", " ").split())
    changed = {word: word in words for word in words ^ set(before.tag_names)}
    new_note = note != (before.note.text if before.note else "")
    new_star = ("star" in form) is (before.star is None)
    if not (new_note or new_star or changed):
        return "Nothing was changed."
    _subject, warnings = annotate(
        site().opened.url,
        control.runs,
        reference,
        note=note if new_note else None,
        star="star" in form if new_star else None,
        tags=changed,
    )
    return "; ".join(["Saved", *warnings]) + "."
