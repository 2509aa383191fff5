"""Rows side by side: their differing hyperparameters, and the differences of their scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flask import redirect, render_template
from werkzeug.wrappers import Response as BaseResponse

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.labels import value_text, values_line
from cse_dashboards.page.address import CompareAddress
from cse_dashboards.page.site import pages, read_address, reader, site
from cse_methods.data.dev_selection import dev_metric
from cse_methods.names import method_name, task_name
from cse_methods.tasks import STS_TASKS
from cse_platform.errors import ComparisonError, NotFoundError, QueryError
from cse_platform.leaderboard.comparisons import shared_tasks, summarize_row
from cse_platform.leaderboard.families import FAMILIES, FamilyName, family_named, is_of_mteb, is_own
from cse_platform.leaderboard.records import LeaderboardRow
from cse_platform.leaderboard.row_names import named_rows
from cse_platform.leaderboard.statistics.compare import Comparison
from cse_platform.numbers import probability, signed_percent
from cse_platform.presentation.board_columns import ALPHA, interval_cell, score_cell, shown_dev_set
from cse_platform.presentation.comparison import comparison_table, describe_row, verdict
from cse_platform.presentation.tables import Cell, Column, Table, text_table, to_table
from cse_platform.presentation.trial import IDENTITY_DIGITS
from cse_platform.tracking.history import order_metrics

NamedRows = Mapping[str, LeaderboardRow]


def shown_names(rows: Sequence[LeaderboardRow]) -> dict[str, LeaderboardRow]:
    """Name rows by the shortest unique text, with methods by their display names."""
    return {
        name.replace(row.method, method_name(row.method), 1): row
        for name, row in named_rows(rows).items()
    }


def compare_facts(rows: NamedRows) -> tuple[list[tuple[str, ...]], list[tuple[str, str]]]:
    """Compare the rows' methods, backbones, data and hyperparameters; absent values are empty.

    Returns the facts that differ, each with its value in every row, and those that all share.
    """
    facts = {
        name: {
            "method": method_name(row.shown_method),
            "backbone": row.backbone,
            "corpus": row.shown_corpus,
            "dev set": shown_dev_set(row),
            "seeds": " ".join(map(str, row.seeds)),
            "code": (row.configuration.code or "")[:8],
            **{key: value_text(value) for key, value in row.configuration.compared_values.items()},
        }
        for name, row in rows.items()
    }
    order = list(dict.fromkeys(fact for values in facts.values() for fact in values))
    lines = {fact: [values.get(fact, "") for values in facts.values()] for fact in order}
    differ = [(fact, *values) for fact, values in lines.items() if len(set(values)) > 1]
    same = [(fact, values[0]) for fact, values in lines.items() if len(set(values)) == 1]
    return differ, same


def scores_table(rows: NamedRows, against: Mapping[str, Comparison], tasks: FamilyName) -> Table:
    """Make the table of each row's scores, and of its differences from the first row.

    Args:
        rows: by name; the others are compared with the first.
        against: by name, the comparisons of rows (as A) with the first, where possible.
        tasks: the family of test scores.
    """
    first = next(iter(rows))
    dev_lines = {name: f"dev {shown_dev_set(row)}" for name, row in rows.items()}
    columns = [Column[str]("task", str, lambda t: t if t.startswith("dev ") else task_name(t))]
    for name, row in rows.items():
        scores = {dev_lines[name]: row.dev_score, **row.scores}
        columns.append(Column(name, scores.get, score_cell, name, "right"))
        if name not in against:
            continue
        differences = [(task, task.p_holm) for task in against[name].tasks]
        if (average := against[name].average) is not None:  # one test, which needs no correction
            differences.append((average, average.p))
        effects = {
            task.task: Cell(
                signed_percent(task.effect),
                emphasis="best" if p is not None and p < ALPHA else "none",
            )
            for task, p in differences
        }
        intervals = {task.task: task.interval for task, _ in differences}
        p_values = {task.task: p for task, p in differences}
        columns += [
            Column("effect", effects.get, title=f"minus {first}", align="right"),
            Column("interval", intervals.get, interval_cell, "95 % interval"),
            Column("p", p_values.get, probability, "p", "right"),
        ]
    of_family = family_named(tasks, rows.values()).columns
    scored = [task for task in of_family if any(task in row.scores for row in rows.values())]
    notes = [f"Bold: p < {ALPHA}, of the tasks after Holm's correction."] if against else []
    return to_table(
        columns, [[*dict.fromkeys(dev_lines.values())], scored], title="Scores × 100", notes=notes
    )


@dataclass(frozen=True)
class RequestedRow:
    """A reference in the address, and the rows that it can mean."""

    reference: str
    candidates: tuple[LeaderboardRow, ...] = ()
    problem: str = ""
    """Why there is no candidate."""
    unknown: bool = False
    """Whether no row matches the reference."""

    @property
    def row(self) -> LeaderboardRow | None:
        """The row, if there is exactly one candidate."""
        return self.candidates[0] if len(self.candidates) == 1 else None


@pages.get("/compare")
def show_compare() -> str:
    """Render the form and, if all rows are known, the placeholders of the slower parts."""
    address = read_address(CompareAddress)
    requested = _find_candidates(address)
    rows = {entry.reference: entry.row for entry in requested if entry.row}
    complete = 1 < len(rows) == len(requested)
    named = shown_names(list(rows.values()))
    differ, same = compare_facts(named) if complete else ([], [])
    varied = {fact for fact, *_ in differ}
    unknown = [entry for entry in requested if entry.unknown]
    unclear = [entry for entry in requested if len(entry.candidates) > 1]
    known = reader().rows(address.filters, tasks=address.tasks, ranked=False)
    benchmarks = (name for row in known for name in row.benchmarks)
    families = list(dict.fromkeys([*FAMILIES, *benchmarks]))
    unscored = [name for name, row in named.items() if complete and not row.scores]
    return render_template(
        "compare.html",
        address=address,
        asked=[entry for entry in requested if len(unknown) < 2 or not entry.unknown],
        unknown=unknown if len(unknown) > 1 else [],
        names=dict(zip(rows, named, strict=True)),
        described={reference: describe_row(summarize_row(row)) for reference, row in rows.items()},
        offers={entry.reference: list(_make_offers(address, entry)) for entry in unclear},
        catalogue=reader().catalogue(),
        families=families,
        known=[row.reference for row in known],
        complete=complete,
        differing=text_table(("", *named), differ, title="What differs"),
        same=same,
        settings={
            name: values_line({k: v for k, v in row.configuration.values.items() if k in varied})
            for name, row in named.items()
        },
        unscored=unscored,
        comparable=_find_comparable(address, families) if unscored else [],
        shared=_choose_pair(address, rows)[1] if complete else [],
    )


@pages.get("/parts/differences/compare")
def compare_differences() -> str:
    """Render all scores, and the comparison of each row with the first."""
    from cse_dashboards.figures.board.differences import differences

    address, rows = _read_known_rows()
    board, named = reader(), shown_names(list(rows.values()))
    (first, base), *others = named.items()
    comparisons: dict[str, Comparison] = {}
    refused: dict[str, str] = {}
    for name, row in others:
        if not (row.scores and base.scores):
            continue  # the page already says that they lack test scores
        try:
            comparisons[name] = site().comparisons.ask(
                (name, first, address.tasks),
                [row, base],
                partial(board.compare, (name, row), (first, base), tasks=address.tasks),
            )
        except ComparisonError as error:
            refused[name] = str(error)
    return render_template(
        "compare_differences.html",
        scores=scores_table(named, comparisons, address.tasks),
        verdicts=[line for comparison in comparisons.values() for line in verdict(comparison)],
        pictures=[
            replace(differences(comparison), name=f"differences_{number}")
            for number, comparison in enumerate(comparisons.values(), start=1)
        ],
        tests={name: comparison_table(comparison) for name, comparison in comparisons.items()},
        refused=refused,
        first=first,
    )


@pages.get("/parts/curves/compare")
def compare_curves() -> str:
    from cse_dashboards.figures.training.dev_curves import dev_curve_pictures

    address, known = _read_known_rows()
    rows = list(known.values())
    curves = [curve for row in rows for curve in reader().dev_curves(row).values()]
    logged = order_metrics(name for curve in curves for point in curve for name in point.metrics)
    metrics = dict.fromkeys(dev_metric(row.dev.search) for row in rows)
    pictures = [
        picture
        for metric in ([address.metric] if address.metric else metrics)
        for picture in dev_curve_pictures(reader(), rows, metric)
    ]
    return render_template(
        "curves.html",
        title="Dev curves",
        address=address,
        part="curves",
        metric=address.metric,
        metrics=logged,
        usual="the searches' dev scores",
        pictures=pictures,
    )


@pages.get("/parts/pairs/compare")
def compare_pairs() -> str:
    from cse_dashboards.figures.board.pair_scatter import pair_scatter

    address, rows = _read_known_rows()
    pair, shared = _choose_pair(address, rows)
    if address.task is not None and address.task not in shared:
        raise AddressError(
            f"{address.task!r} is not an STS task that both are scored on; these are "
            f"{', '.join(shared) or 'none'}"
        )
    task = address.task or next(iter(shared), None)
    pictures = [pair_scatter(reader(), *pair, task)] if task else []
    return render_template("pictures.html", title="Pairs", pictures=pictures)


@pages.get("/mlflow/compare")
def compare_in_mlflow() -> BaseResponse:
    """Redirect to MLflow's comparison of the best trials of the rows."""
    from cse_platform.stores.mlflow.sweep_run import find_comparison

    (_, rows), server = _read_known_rows(), site().mlflow_server
    experiments = {reader().sweep_spec(row.sweep).get("experiment", "cse") for row in rows.values()}
    trials = [row.best_trial for row in rows.values() if row.best_trial]
    link = find_comparison(server, experiments=experiments, trials=trials)
    return redirect(f"{server}/{link}")


def _find_candidates(address: CompareAddress) -> list[RequestedRow]:
    """Find the rows that each reference of the address can mean."""
    requested = []
    find = partial(reader().candidates, tasks=address.tasks, scored=True)
    for reference in address.rows:
        candidates: Sequence[LeaderboardRow] = ()
        try:
            _, candidates = find(reference, address.filters)
            unknown = not candidates
            problem = f"{reference!r} has no complete trial that matches the filters" * unknown
        except QueryError as error:
            unknown, problem = isinstance(error, NotFoundError), str(error)
        requested.append(RequestedRow(reference, tuple(candidates), problem, unknown))
    return requested


def _make_offers(address: CompareAddress, requested: RequestedRow) -> Iterator[tuple[str, str]]:
    """Yield links to the candidates of a reference, each with its text.

    Evaluations of the same row are offered by identity.
    """
    references = [row.reference for row in requested.candidates]
    for row in requested.candidates:
        described = describe_row(summarize_row(row))
        score = next(iter(row.scores.values()), None)
        if references.count(row.reference) > 1 and score is not None:
            identity = score.identity[:IDENTITY_DIGITS]
            yield address.link(identity=identity), f"{described}, evaluation {identity}"
        else:
            rows = [row.reference if n == requested.reference else n for n in address.rows]
            lacks = f", no test scores of {address.tasks}" * (not row.scores)
            yield address.link(rows=rows), described + lacks


def _find_comparable(address: CompareAddress, families: Sequence[FamilyName]) -> list[FamilyName]:
    """Find the families of which at least two of the rows have test scores."""
    comparable = []
    for tasks in families:
        requested = _find_candidates(address.model_copy(update={"tasks": tasks}))
        if sum(any(row.scores for row in entry.candidates) for entry in requested) > 1:
            comparable.append(tasks)
    return comparable


def _read_known_rows() -> tuple[CompareAddress, dict[str, LeaderboardRow]]:
    """Read the rows by their references in the address; the others are compared with the first."""
    address = read_address(CompareAddress)
    requested = _find_candidates(address)
    rows = {entry.reference: entry.row for entry in requested if entry.row}
    if not 1 < len(rows) == len(requested):
        unclear = ", ".join(repr(entry.reference) for entry in requested if entry.row is None)
        why = f"; {unclear} does not match exactly one row" if unclear else ""
        raise AddressError(f"a comparison needs at least two rows, rows=A,B{why}")
    return address, rows


def _choose_pair(
    address: CompareAddress, rows: NamedRows
) -> tuple[tuple[LeaderboardRow, LeaderboardRow], list[str]]:
    """Choose the two rows whose sentence pairs are plotted, and find the tasks of such pairs on
    which both have scores.
    """
    x, y, *_ = rows
    for side in (address.x, address.y):
        if side is not None and side not in rows:
            raise AddressError(
                f"{side!r} is not one of the rows; expected one of {', '.join(rows)}"
            )
    pair = rows[address.x or x], rows[address.y or y]
    shared, _ = shared_tasks(dict(zip("xy", pair, strict=True)), address.tasks)
    return pair, [task for task in shared if task in STS_TASKS or is_own(task) or is_of_mteb(task)]
