"""The trials of a sweep as a table: every one, in every state; and as a file."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Response, render_template, stream_with_context

from cse_dashboards.page.address import SweepAddress
from cse_dashboards.page.show import TablePage, task_words
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.names import hyperparameter_name
from cse_platform.errors import NotFoundError, QueryError
from cse_platform.leaderboard.query.sweeps.overviews import SweepOverview
from cse_platform.leaderboard.query.sweeps.trial_columns import OWN_COLUMNS
from cse_platform.leaderboard.query.sweeps.trials_table import SweepHyperparameters, TrialLine
from cse_platform.render.table import as_text
from cse_platform.sweep.space.dimensions import canonical_json

TRIALS_SHOWN = 50
"""Trials on one page."""
BEFORE, AFTER = ("state", "score"), ("seed", "step", "seconds", "error", "key")
"""What stands on both sides of the hyperparameters; the number is always first."""
STATES = {"RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
_FROM_THE_LEFT = ("state", "error", "key")
_FALLING = ("score", "number")
"""Columns whose first click shows the highest first."""


@dataclass(frozen=True)
class TrialsColumn:
    """One column of the table."""

    name: str
    """As the address has it."""
    title: str
    searched: bool = False
    """Whether it is a hyperparameter."""

    @property
    def align(self) -> str:
        return "left" if self.name in _FROM_THE_LEFT else "right"

    def toggled(self, sort: str) -> str:
        """What a click on the head sorts by, where the trials are sorted so now."""
        if sort.removeprefix("-") == self.name:
            return self.name if sort.startswith("-") else f"-{self.name}"
        return f"-{self.name}" if self.name in _FALLING else self.name


@pages.get("/parts/trials/sweeps/<name>")
def sweep_trials(name: str) -> str:
    """The table alone."""
    address, overview = read_address(SweepAddress, name=name), reader().sweep(name)
    return render_template(
        "sweep_trials_part.html",
        address=address,
        overview=overview,
        **trials_table(address, overview),
    )


@pages.get("/as/csv/sweeps/<name>")
def trials_file(name: str) -> Response:
    """All trials that pass, in the table's order; scores are fractions."""
    address, overview = read_address(SweepAddress, name=name), reader().sweep(name)
    reader().count_trials(name, address.choice)  # refuses what means nothing before a line is sent
    columns = [one.name for one in _chosen(address, _offered(overview))]
    lines = reader().trials(name, address.choice)
    text = stream_with_context(_csv(["number", *columns], lines))
    answer = Response(text, mimetype="text/csv")
    answer.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return answer


def trials_table(address: SweepAddress, overview: SweepOverview) -> dict[str, Any]:
    """What the template takes; what means nothing is said in the table's place."""
    try:
        return _table(address, overview)
    except QueryError as error:
        return {"refused": str(error), "states": STATES, "trials": []}


def _table(address: SweepAddress, overview: SweepOverview) -> dict[str, Any]:
    known, offered = _hyperparameters(overview), _offered(overview)
    total = reader().count_trials(address.name, address.choice)
    page = TablePage(address.page, TRIALS_SHOWN, total)
    choice = address.choice
    lines = list(reader().trials(address.name, choice, limit=TRIALS_SHOWN, offset=page.before))
    return {
        "trials": lines,
        "notes": reader().annotations("trial", [line.key for line in lines]),
        "shown_page": page,
        "states": STATES,
        "same": known.same,
        "number": TrialsColumn("number", "trial"),
        "offered": offered,
        "shown": _chosen(address, offered),
        "narrowing": [*known.varying, "score", "seed", "step", "seconds"],
    }


def _hyperparameters(overview: SweepOverview) -> SweepHyperparameters:
    """Looked for again when there are more trials: those that are there do not change."""
    name = overview.name
    known_for = (overview.started, overview.trials)
    return site().hyperparameters.ask(name, known_for, lambda: reader().hyperparameters(name))


def _offered(overview: SweepOverview) -> list[TrialsColumn]:
    """All columns but the number; errors where a trial may have one."""
    varying = _hyperparameters(overview).varying
    titles = {"score": task_words(f"dev {overview.dev} × 100")}
    stopped = overview.counts["FAIL"] or overview.counts["PRUNED"]
    return [
        *(TrialsColumn(name, titles.get(name, name)) for name in BEFORE),
        *(TrialsColumn(name, hyperparameter_name(name), searched=True) for name in varying),
        *(TrialsColumn(name, name) for name in AFTER if stopped or name != "error"),
    ]


def _chosen(address: SweepAddress, offered: Sequence[TrialsColumn]) -> list[TrialsColumn]:
    """Those that the address names; all, if it names none."""
    known = [one.name for one in offered]
    for name in address.columns:
        if name not in known:
            raise NotFoundError(
                f"columns: {address.name} has no column {name!r}; it has {', '.join(known)}"
            )
    return [one for one in offered if one.name in (address.columns or known)]


def _csv(columns: Sequence[str], lines: Iterator[TrialLine]) -> Iterator[str]:
    """A text for each few lines."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns)
    for line in lines:
        writer.writerow([_field(line, name) for name in columns])
        if written.tell() > 1 << 16:
            yield written.getvalue()
            written.seek(0)
            written.truncate()
    yield written.getvalue()


def _field(line: TrialLine, name: str) -> str:
    value = getattr(line, name) if name in OWN_COLUMNS else line.values.get(name)
    if isinstance(value, (list, dict)):
        return canonical_json(value)
    return as_text(value)
