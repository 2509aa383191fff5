"""The list of sweeps, a sweep with the table of its trials, and stamps that detect changes."""

import csv
import io
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from flask import Response, jsonify, redirect, render_template, request, stream_with_context
from ruamel.yaml import YAML
from werkzeug.wrappers import Response as BaseResponse

from cse_dashboards.figures.labels import STEP, Quantity, metric_quantity
from cse_dashboards.page.address import SweepAddress, SweepsAddress
from cse_dashboards.page.site import pages, read_address, read_overview, read_version, reader, site
from cse_dashboards.page.words import arrange_columns, task_words
from cse_methods.data.dev_selection import dev_metric, parse_width_metric
from cse_methods.names import hyperparameter_name
from cse_platform.errors import NotFoundError, QueryError
from cse_platform.leaderboard.families import OWN, FamilyName, family_of
from cse_platform.leaderboard.filters import Filters
from cse_platform.leaderboard.records import LeaderboardRow, Trial, dev_key
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trials_table import OWN_COLUMNS, TEXTS, Hyperparameters, TrialChoice
from cse_platform.presentation.board import wide_board_tables
from cse_platform.presentation.board_entries import Board
from cse_platform.presentation.tables import as_text, csv_cell
from cse_platform.values import canonical_json

TRIALS_SHOWN, SWEEPS_SHOWN = 50, 50
"""Trials and sweeps per page."""
BEFORE, AFTER = ("state", "score"), ("seed", "step", "seconds", "error", "key")
"""Columns on either side of the hyperparameters; the number is always first."""
STATES = {"RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
_FALLING = ("score", "number")
"""Columns that the first click sorts in descending order."""
_FIELDS = {"score": "best_value", "step": "best_step", "seconds": "wall_seconds"}
"""The `Trial` fields of columns with another name."""


class TablePage(NamedTuple):
    """One page of a long table."""

    page: int
    pages: int
    first: int
    """The number of its first row, from 1."""
    last: int
    total: int
    """The number of rows on all pages."""


def choose_page(number: int, total: int, *, size: int) -> TablePage:
    """Choose the page in the address, or the last one if that is beyond it."""
    pages = max(1, -(-total // size))
    page = min(number, pages)
    return TablePage(page, pages, size * (page - 1) + 1, min(size * page, total), total)


@dataclass(frozen=True)
class TrialsColumn:
    """A column of the table of trials."""

    name: str
    """The column's name in addresses."""
    title: str
    searched: bool = False
    """Whether it is a hyperparameter."""
    quantity: Quantity | None = None
    """What it measures, if it is a metric or a test score; shown only if the address names it."""

    @property
    def align(self) -> str:
        return "left" if self.name in TEXTS else "right"

    def toggle_order(self, sort: str) -> str:
        """Return the new order after a click on the head, if trials are now sorted by `sort`."""
        if sort.removeprefix("-") == self.name:
            return self.name if sort.startswith("-") else f"-{self.name}"
        return f"-{self.name}" if self.name in _FALLING else self.name


@pages.get("/sweeps/<name>")
def show_sweep(name: str) -> str:
    """Render everything that needs no slow query."""
    # The stamp is read first, so that changes in between cause a refresh and are not missed.
    address, stamp = read_address(SweepAddress, name=name), sweep_stamp(name)
    overview, spec = read_overview(name), reader().sweep_spec(name)
    file = io.StringIO()
    YAML().dump(spec, file)
    return render_template(
        "sweep.html",
        file=file.getvalue(),
        stamp=stamp,
        space=list(spec.get("space") or {}),
        **_build_progress(address, overview),
        **_build_trials_table(address, overview),
    )


@pages.get("/parts/live/sweeps/<name>")
def sweep_live(name: str) -> str:
    """Render the progress and the running trials."""
    shown = _build_progress(read_address(SweepAddress, name=name), read_overview(name))
    return render_template("part.html", title=name, body="sweep_progress.html", **shown)


@pages.get("/parts/trials/sweeps/<name>")
def sweep_trials(name: str) -> str:
    """Render only the table."""
    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    shown = _build_trials_table(address, overview)
    whole = {"title": f"{name}: trials", "address": address, "overview": overview, **shown}
    return render_template("part.html", body="sweep_trials.html", **whole)


@pages.get("/as/csv/sweeps/<name>")
def trials_file(name: str) -> Response:
    """Send all trials that match the filter, in the table's order; scores are fractions."""
    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    reader().count_trials(name, address.choice)  # raise on an invalid choice before sending
    columns = [column.name for column in _choose_columns(address, _list_columns(overview))]
    lines = reader().table_trials(name, address.choice)
    text = stream_with_context(_format_csv(["number", *columns], lines))
    answer = Response(text, mimetype="text/csv")
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return answer


def _build_progress(address: SweepAddress, overview: SweepOverview) -> dict[str, Any]:
    return {
        "address": address,
        "overview": overview,
        "running": reader().running(address.name) if overview.counts["RUNNING"] else [],
        "runs": overview.state == "RUNNING",
    }


def _build_trials_table(address: SweepAddress, overview: SweepOverview) -> dict[str, Any]:
    """Build the variables of the table's template; for an invalid choice, the explanation."""
    choice = address.choice
    try:
        (varying, same), offered = _read_hyperparameters(overview), _list_columns(overview)
        total = reader().count_trials(address.name, choice)
        page = choose_page(address.page, total, size=TRIALS_SHOWN)
        matching = reader().table_trials(
            address.name, choice, limit=TRIALS_SHOWN, offset=page.first - 1
        )
        trials, shown = list(matching), _choose_columns(address, offered)
    except QueryError as error:
        return {"refused": str(error), "states": STATES, "trials": []}
    return {
        "trials": trials,
        "notes": reader().annotations("trial", [trial.key for trial in trials]),
        "shown_page": page,
        "states": STATES,
        "same": same,
        "number": TrialsColumn("number", "trial"),
        "offered": offered,
        "shown": shown,
        "narrowing": [*varying, "score", "seed", "step", "seconds"],
    }


def _read_hyperparameters(overview: SweepOverview) -> Hyperparameters:
    """Read the hyperparameters; cached until the leaderboard changes."""
    name = overview.name
    return site().hyperparameters.ask(name, read_version(), lambda: reader().hyperparameters(name))


def _list_columns(overview: SweepOverview) -> list[TrialsColumn]:
    """List all columns except the number, with errors only if a trial can have one."""
    varying, _ = _read_hyperparameters(overview)
    measured = {name: metric_quantity(name) for name in _list_measured(overview)}
    stopped = overview.counts["FAIL"] or overview.counts["PRUNED"]
    shown = [*BEFORE, *varying, *(name for name in AFTER if stopped or name != "error")]
    titles = {name: hyperparameter_name(name) for name in shown}
    titles |= {"score": task_words(f"dev {overview.dev} × 100"), "step": STEP}
    return [
        *(TrialsColumn(name, titles[name], name in varying) for name in shown),
        *(TrialsColumn(name, each.title, quantity=each) for name, each in measured.items()),
    ]


def _list_measured(overview: SweepOverview) -> list[str]:
    """List the metrics and test scores of its trials; cached until the leaderboard changes."""
    name = overview.name
    return site().measured.ask(name, read_version(), lambda: reader().measured(name))


def _choose_columns(address: SweepAddress, offered: Sequence[TrialsColumn]) -> list[TrialsColumn]:
    """Choose the columns that the address names; all columns if it names none."""
    known = [column.name for column in offered]
    for name in address.columns:
        if name not in known:
            raise NotFoundError(
                f"columns: {address.name} has no column {name!r}; it has {', '.join(known)}"
            )
    chosen = address.columns or [column.name for column in offered if column.quantity is None]
    return [column for column in offered if column.name in chosen]


def _format_csv(columns: Sequence[str], trials: Iterator[Trial]) -> Iterator[str]:
    """Format trials as CSV, in chunks of several lines."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(map(csv_cell, columns))
    for trial in trials:
        values = {**trial.measured, **trial.hyperparameters}
        values |= {name: getattr(trial, _FIELDS.get(name, name)) for name in OWN_COLUMNS}
        cells = (values.get(name) for name in columns)
        writer.writerow(
            csv_cell(canonical_json(cell) if isinstance(cell, (list, dict)) else as_text(cell))
            for cell in cells
        )
        if written.tell() > 1 << 16:
            yield written.getvalue()
            written.seek(0)
            written.truncate()
    yield written.getvalue()


SEEDS = 8
"""Trials to read per shown configuration, if trials are filtered."""
BEST = 8
"""Number of configurations that are shown with their dev curves."""
BEST_COLUMNS = ("method", "dev", "searched", "configuration", "backbone")
"""First columns of their table: what they are sorted by, and what differs."""


@pages.get("/parts/curves/sweeps/<name>")
def sweep_curves(name: str) -> str:
    """Render the dev curves of the best configurations and of the running trials."""
    from cse_dashboards.figures.training.dev_curves import dev_curve_pictures
    from cse_dashboards.figures.training.widths import rows_by_width

    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    usual = dev_metric(overview.dev)
    metric = address.metric or usual
    measured = [name for name in _list_measured(overview) if not name.startswith("test/")]
    running = reader().running(name, curves=True) if overview.state == "RUNNING" else []
    rows = _read_best_rows(address)
    pictures = dev_curve_pictures(reader(), rows, metric, running)
    if any(parse_width_metric(name) for name in measured):
        pictures.append(rows_by_width(reader(), rows))
    return render_template(
        "curves.html",
        title=f"{name}: dev curves",
        address=address,
        part="curves",
        metric=metric,
        metrics=list(dict.fromkeys((usual, *measured, metric))),
        pictures=pictures,
    )


@pages.get("/parts/best/sweeps/<name>")
def sweep_best(name: str) -> str:
    """Render the best configurations as a leaderboard."""
    address, overview = read_address(SweepAddress, name=name), read_overview(name)
    rows = _read_best_rows(address)
    board = Board(rows, family=family_of(rows), sorted_by="dev", ranked=False)
    tables = wide_board_tables(board) if rows else []
    return render_template(
        "sweep_best.html",
        address=address,
        overview=overview,
        rows=rows,
        tables=[arrange_columns(table, front=BEST_COLUMNS) for table in tables],
    )


def _read_best_rows(address: SweepAddress) -> list[LeaderboardRow]:
    """Read the best configurations, which two parts of the page show; with the scores on own test
    sets if they have no others. Cached until the leaderboard changes: other sweeps and evaluations
    change these rows, too.
    """

    def select() -> list[LeaderboardRow]:
        rows = _select_best_rows(address, None)
        if any(row.scores for row in rows):
            return rows
        own = _select_best_rows(address, OWN)
        return own if any(row.scores for row in own) else rows

    return site().standings.ask((address.name, address.where), read_version(), select)


def _select_best_rows(address: SweepAddress, tasks: FamilyName | None) -> list[LeaderboardRow]:
    """Select the best configurations of matching trials, each with all its seeds in the sweep, in
    the order by which the leaderboard selects the best.
    """
    name = address.name
    read = partial(reader().rows, tasks=tasks, per_configuration=True, ranked=False)
    if not address.where:
        rows = read(Filters(sweep=name), limit=BEST)
    else:
        choice = TrialChoice(address.conditions, "COMPLETE", "score", descending=True)
        best = reader().table_trials(name, choice, limit=SEEDS * BEST)
        rows = list[LeaderboardRow]()
        for configuration in list(dict.fromkeys(trial.configuration for trial in best))[:BEST]:
            rows += read(Filters(sweep=name, configuration=configuration))
    return sorted(rows, key=dev_key, reverse=True)


@pages.get("/sweeps/<name>/mlflow")
def sweep_mlflow(name: str) -> BaseResponse:
    """Redirect to the sweep's run on the MLflow server, which is contacted only for this link."""
    from cse_platform.stores.mlflow.sweep_run import find_sweep_run

    server, spec = site().mlflow_server, reader().sweep_spec(name)
    experiment, journal = spec.get("experiment", "cse"), reader().sweep(name).journal
    link = find_sweep_run(server, experiment=experiment, sweep=name, journal=journal)
    return redirect(f"{server}/{link}")


@pages.get("/sweeps")
def show_sweeps() -> str:
    return render_template("sweeps.html", stamp=sweeps_stamp(), **_list_sweeps())


@pages.get("/parts/listed/sweeps")
def sweeps_listed() -> str:
    """Render only the list, which is refreshed while a sweep runs."""
    return render_template("part.html", title="Sweeps", body="sweeps_table.html", **_list_sweeps())


def _list_sweeps() -> dict[str, Any]:
    """Build the variables of the list's template."""
    address = read_address(SweepsAddress)
    page = choose_page(address.page, reader().count_sweeps(), size=SWEEPS_SHOWN)
    sweeps = reader().sweeps(limit=SWEEPS_SHOWN, offset=page.first - 1)
    return {"address": address, "shown_page": page, "sweeps": sweeps}


@pages.get("/stamp/sweeps", defaults={"name": None})
@pages.get("/stamp/sweeps/<name>")
def send_stamp(name: str | None) -> Response:
    """Respond with an ETag, so that a browser with the same stamp gets an empty 304."""
    answer = jsonify(sweeps_stamp() if name is None else sweep_stamp(name))
    answer.add_etag()
    answer.make_conditional(request)
    return answer


def sweep_stamp(name: str) -> dict[str, Any]:
    """Return the state of a sweep; each part of its page names the entries that make it stale.

    While the sweep runs, the stamp also changes every minute, because the page shows the elapsed
    time.
    """
    stamp = state, position = reader().stamps(name)[name]
    runs = state == "RUNNING"

    trials, ended = site().counts.ask(
        name, stamp, lambda: (read_overview(name).trials, read_overview(name).ended)
    )
    return {
        "runs": runs,
        "state": state,
        "position": position,
        "trials": trials,
        "ended": ended,
        "minute": int(time.time() / 60) if runs else 0,
    }


def sweeps_stamp() -> dict[str, Any]:
    """Return the state of all sweeps; without sweeps, `runs` is true because one may start."""
    stamps = reader().stamps()
    text = repr(sorted(stamps.items()))
    return {
        "runs": not stamps or any(state == "RUNNING" for state, _ in stamps.values()),
        "sweeps": sha256(text.encode()).hexdigest(),
    }
