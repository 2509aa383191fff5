"""The page of a trial, and the data of any picture as a CSV file."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import quote

from flask import Response, current_app, g, render_template, request

from cse_dashboards.figures.labels import Style, method_colours
from cse_dashboards.figures.picture import Picture
from cse_dashboards.figures.training.dev_curves import draw_dev_curves
from cse_dashboards.figures.training.measured import (
    losses_picture,
    machine_picture,
    other_metrics_picture,
)
from cse_dashboards.figures.training.widths import width_picture
from cse_dashboards.page.address import TrialAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.data.dev_selection import dev_metric, scores_by_width
from cse_methods.names import method_name
from cse_platform.errors import NotFoundError
from cse_platform.export.journal_files import find_output
from cse_platform.leaderboard.families import BENCHMARK
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.presentation.tables import Block, Heading
from cse_platform.presentation.trial import score_grid, trial_page
from cse_platform.tracking.events import MAIN_METRICS, TrialScore
from cse_platform.tracking.output import read_output

MOST_LINES, MOST_PRINTED = 200, 20_000
"""Lines and characters of what a trial has printed that its page shows at most."""


@pages.get("/trials/<key>")
def show_trial(key: str) -> str:
    """Render how a trial was trained, and its results."""
    read_address(TrialAddress, key=key)
    details = reader().trial(key)
    # In each of its sweeps: the neighbours, and the best trial, which may be this one.
    entries = []
    for entry in details.sweeps:
        around = reader().neighbours(entry.sweep, entry.number)
        entries.append((entry, *around, reader().best_of_sweep(entry.sweep)))
    better = [best for *_, best in entries if best is not None and best.key != details.key]
    options = f" --store {shlex.quote(site().opened.shown_url)}"
    printed = _read_last_lines(details)
    _title, *blocks = trial_page(
        details,
        options=options,
        has_output=bool(printed),
        best=better[0].hyperparameters if better else None,
    )
    metric = dev_metric(details.dev.search)
    searched = details.configuration.searched
    tested = [score for score in details.main_scores if score.split == "test"]
    head = min(tested, key=_rank_score, default=None)
    return render_template(
        "trial.html",
        details=details,
        searched={n: v for n, v in details.configuration.values.items() if n in searched},
        tested=[s for s in tested if head and (s.task, s.metric) == (head.task, head.metric)],
        entries=entries,
        sections=_group_blocks(blocks),
        scores=score_grid([*details.main_scores, *details.scores]),
        options=options,
        first=[
            _draw_curve(details, metric),
            losses_picture(details.curve),
            *_draw_widths(details),
        ],
        others=other_metrics_picture(details.curve, metric),
        machine=machine_picture(details.curve),
        printed=printed,
    )


def _rank_score(score: TrialScore) -> tuple[bool, bool]:
    """Rank a score for the head of the page: of a main metric, and of an average, first."""
    return score.metric not in MAIN_METRICS, not score.task.startswith(("avg_", BENCHMARK))


def _group_blocks(blocks: Iterable[Block]) -> dict[str, list[Block]]:
    """Group blocks by the heading of level 2 above them, an empty one before the first."""
    title, sections = "", dict[str, list[Block]]()
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            title = block.text
        else:
            sections.setdefault(title, []).append(block)
    return sections


def _read_last_lines(details: TrialDetails) -> str:
    """Read the last lines of the trial's output; empty if it is not on this machine.

    `cse-sweep logs` tells where it is.
    """
    with suppress(NotFoundError, OSError):
        file = find_output(details, site().opened.folder)
        if file is not None:
            printed = read_output(file)[-MOST_PRINTED:]
            return "".join(printed.splitlines(keepends=True)[-MOST_LINES:])
    return ""


def _draw_curve(details: TrialDetails, metric: str) -> Picture:
    name, title = "dev_curve", "Dev curve"
    caption = "A star marks the best checkpoint."
    if all(point.metrics.get(metric) is None for point in details.curve):
        return Picture(name, title, caption, missing=f"this trial reported no {metric}")
    styles, seed = _style_trial(details), details.seed
    [label] = styles
    curves, keys = {label: {seed: details.curve}}, {label: {seed: details.key}}
    drawn = draw_dev_curves(curves, metric, styles, keys)
    return Picture(name, title, caption, *drawn)


def _draw_widths(details: TrialDetails) -> Iterator[Picture]:
    """Yield the picture of dev scores by width, if the trial was scored at several."""
    by_width = next((scores_by_width(p.metrics) for p in details.curve if p.kept), {})
    if by_width:
        styles = _style_trial(details)
        yield width_picture(dict.fromkeys(styles, by_width), styles)


def _style_trial(details: TrialDetails) -> dict[str, Style]:
    """Return the style of the trial's line, by its label."""
    label = f"{method_name(details.method)}, seed {details.seed}"
    return {label: Style(method_colours([details.method])[details.method])}


def csv_address(picture: Picture) -> str:
    """Return the URL of the picture's data, which is not embedded as it would double the page's
    size.
    """
    g.setdefault("pictures", {})[picture.name] = picture  # those of the view being rendered
    query = request.query_string.decode()
    return f"/csv/{picture.name}{quote(request.path)}" + (f"?{query}" if query else "")


@pages.get("/csv/<name>/", defaults={"view": ""})
@pages.get("/csv/<name>/<path:view>")
def picture_numbers(name: str, view: str) -> Response:
    """Render the view again, and send the data of one of its pictures."""
    addresses = current_app.url_map.bind_to_environ(request.environ)
    endpoint, path = addresses.match(f"/{view}", "GET")
    if endpoint != request.endpoint:
        current_app.view_functions[endpoint](**path)
    shown: dict[str, Picture] = g.get("pictures", {})
    if name not in shown:
        raise NotFoundError(f"this view has no figure {name!r} with numbers; reload it")
    answer = Response(shown[name].csv, mimetype="text/csv")
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return answer
