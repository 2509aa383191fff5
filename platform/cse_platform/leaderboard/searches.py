"""The trials of a search, its Pareto front for people and programs, and configurations that a new
search can start from.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, case, exists, func, or_, select
from sqlalchemy.orm import Session

from cse_platform.errors import QueryError
from cse_platform.leaderboard.board import best_first
from cse_platform.leaderboard.records import Trial
from cse_platform.leaderboard.statistics.searches import non_dominated
from cse_platform.leaderboard.trials import measured_trials, read_trials, select_trials
from cse_platform.leaderboard.trials_table import TrialChoice, select_chosen
from cse_platform.render.table import (
    HASH_DIGITS,
    Column,
    Document,
    Table,
    clock,
    percent,
    short_settings,
    to_csv,
    to_table,
)
from cse_platform.stores.sql.store import Store
from cse_platform.stores.sql.stored_sweeps import find_sweep, space_of
from cse_platform.stores.sql.tables import (
    ConfigurationRecord,
    GroupRecord,
    SweepRecord,
    SweepTrialRecord,
    TrialRecord,
)
from cse_platform.sweep.conditions import Condition
from cse_platform.sweep.objectives import (
    SECONDS,
    SearchObjective,
    is_feasible,
    is_fraction,
    measure,
)
from cse_platform.sweep.space.space import Space


class TrialOutcome(NamedTuple):
    """The outcome of a trial without its hyperparameters; fields are as in `Trial`."""

    number: int
    role: str
    state: str
    configuration: str
    value: float | None


@dataclass(frozen=True)
class SearchHistory:
    """The trials of one sweep, or a selection of them."""

    sweep: str
    dev: str
    """The dev set that the search climbs, or several, e.g. `stsb+sickr`."""
    space: Space
    """Empty if the sweep's file is unknown, as for an imported sweep."""
    trials: tuple[Trial, ...]
    """The trials by number. If the sweep has more than the limit, half of these are the best
    complete ones on dev, and the others are an even sample of the rest by number.
    """
    total: int
    """The number of trials of the sweep that match `where`."""
    sampler: str = ""
    """The sampler that proposed them; empty if it is unknown."""
    method: str = ""
    """The method that it trains."""
    sampled_from: tuple[TrialOutcome, ...] = ()
    """The outcomes of all trials by number, if `trials` is a sample."""

    @property
    def is_sample(self) -> bool:
        """Whether some trials were left out."""
        return len(self.trials) < self.total

    @property
    def outcomes(self) -> Sequence[TrialOutcome | Trial]:
        """The outcomes of all trials by number, for statistics."""
        return self.sampled_from or self.trials


@dataclass(frozen=True)
class FrontRow:
    """A configuration of a search, with means over its complete seeds."""

    configuration: str
    """Its hash."""
    trial: int
    """The number of its first trial in the sweep."""
    key: str
    """The key of that trial."""
    seeds: tuple[int, ...]
    values: dict[str, Any]
    """The searched hyperparameters that are active."""
    measured: dict[str, float]
    """The mean of each objective by name; correlations and accuracies are fractions."""
    feasible: bool
    """Whether it satisfies the search's constraints."""
    on_front: bool
    """Whether no other feasible configuration dominates it: is better in one objective and worse in
    none.
    """


@dataclass(frozen=True)
class ParetoFront:
    """The configurations of a search with several objectives."""

    sweep: str
    dev: str
    """The dev set that the search climbs, e.g. `stsb`; its score is the objective `dev`."""
    objectives: tuple[SearchObjective, ...]
    constraints: tuple[str, ...]
    rows: tuple[FrontRow, ...]
    """Rows on the front first, then the others, each sorted by the first objective, best first.
    Configurations without a value of some objective are left out.
    """


class SearchQueries:
    """What a `Leaderboard` answers about the search of a sweep."""

    _store: Store

    def search(
        self, sweep: str, *, limit: int = 1000, where: Sequence[Condition] = ()
    ) -> SearchHistory:
        """The history of a sweep: its trials, further seeds included, and their results.

        Averages of seeds are left out, because they were not trained.

        Args:
            sweep: its name.
            limit: of trials, at least 2; of more, half of the result are the best ones on dev, and
                the rest is an even sample of the others. The result has the total number of trials.
            where: only trials that satisfy these conditions.

        Raises:
            NotFoundError: if there is no such sweep, or it has no such hyperparameter.
        """
        averages = (
            select(TrialRecord.id)
            .join(TrialRecord.configuration)
            .where(ConfigurationRecord.averages.is_not(None))
        )
        with self._store.session() as session:
            record = find_sweep(session, sweep)
            space = space_of(record.spec)
            conditions = [
                SweepTrialRecord.sweep_id == record.id,
                SweepTrialRecord.trial_id.not_in(averages),
            ]
            if where:
                passing = select_chosen(session, record, TrialChoice(where))
                conditions.append(SweepTrialRecord.trial_id.in_(passing))
            held = select(SweepTrialRecord.trial_id).where(*conditions)
            total = session.scalar(held.with_only_columns(func.count())) or 0
            outcomes: tuple[TrialOutcome, ...] = ()
            weights: dict[str, Any] = {}
            if total > limit:
                columns = SweepTrialRecord.number, SweepTrialRecord.role, TrialRecord.state
                query = select_trials(*columns, ConfigurationRecord.hash, TrialRecord.best_value)
                query = query.where(*conditions).order_by(SweepTrialRecord.number)
                outcomes = tuple(TrialOutcome(*line) for line in session.execute(query))
                sampled, weight = _select_sample(session, held, limit=limit, total=total)
                conditions.append(sampled)
                weights["weight"] = weight
            trials = tuple(read_trials(session, *conditions, space=space, **weights))
            return SearchHistory(
                sweep, record.dev, space, trials, total, record.sampler, record.method, outcomes
            )

    def front(self, sweep: str) -> ParetoFront:
        """The Pareto front of a search with several objectives, and its other configurations.

        Raises:
            NotFoundError: if there is no such sweep.
            QueryError: if its search has only one objective.
        """
        with self._store.session() as session:
            record = find_sweep(session, sweep)
            objectives = objectives_of(record)
            if not objectives:
                raise QueryError(
                    f"sweep {sweep!r} has one objective, its dev score, so it has no Pareto "
                    "front; name several in `search: {objectives: […]}`"
                )
            trials = measured_trials(session, record, space_of(record.spec))
        every = (
            _make_front_row(objectives, record.constraints, seeds)
            for seeds in by_configuration(trials).values()
        )
        rows = [row for row in every if row is not None]
        feasible = [row for row in rows if row.feasible]
        points = [list(row.measured.values()) for row in feasible]
        indices = non_dominated(points, [objective.direction for objective in objectives])
        front = {feasible[index].configuration for index in indices}
        rows = [replace(row, on_front=row.configuration in front) for row in rows]
        first = objectives[0]
        sign = -1 if first.direction == "maximize" else 1
        rows.sort(key=lambda row: (not row.on_front, sign * row.measured[first.name], row.trial))
        return ParetoFront(sweep, record.dev, objectives, tuple(record.constraints), tuple(rows))


def _select_sample(
    session: Session, held: Select[int], *, limit: int, total: int
) -> tuple[ColumnElement[bool], ColumnElement[float]]:
    """Match the best trials, up to half the limit, and an even sample of the others; return the
    condition, and the weights of the trials.
    """
    complete = held.join(SweepTrialRecord.trial).where(TrialRecord.state == "COMPLETE")
    best_first = complete.order_by(TrialRecord.best_value.desc(), SweepTrialRecord.number)
    best = select(best_first.limit(limit // 2).cte("best").c.trial_id)
    best_count = session.scalar(select(func.count()).select_from(best.subquery())) or 0
    wanted, others = limit - best_count, total - best_count
    place = func.row_number().over(order_by=SweepTrialRecord.number).label("place")
    rest = held.where(SweepTrialRecord.trial_id.not_in(best)).add_columns(place).subquery()
    sampled = select(rest.c.trial_id).where(rest.c.place * wanted % others < wanted)
    is_best = SweepTrialRecord.trial_id.in_(best)
    weight = case((is_best, 1.0), else_=others / wanted)
    return or_(is_best, SweepTrialRecord.trial_id.in_(sampled)), weight


def by_configuration(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Group trials by the hashes of their configurations, in the order of the first of each."""
    seeds: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        seeds[trial.configuration].append(trial)
    return seeds


def objectives_of(sweep: SweepRecord) -> tuple[SearchObjective, ...]:
    """Return the objectives of a search; empty if the dev score is the only one."""
    named = sweep.objectives.items()
    return tuple(SearchObjective(name=name, direction=direction) for name, direction in named)


def _make_front_row(
    objectives: Sequence[SearchObjective], constraints: Sequence[str], trials: Sequence[Trial]
) -> FrontRow | None:
    """Average the trials of a configuration; None if one of them lacks an objective."""
    means = {}
    for objective in objectives:
        values = [measure(trial, objective.name) for trial in trials]
        if None in values:
            return None
        means[objective.name] = fmean(value for value in values if value is not None)
    first = trials[0]
    return FrontRow(
        configuration=first.configuration,
        trial=first.number,
        key=first.key,
        seeds=tuple(trial.seed for trial in trials),
        values=first.values,
        measured=means,
        feasible=is_feasible(constraints, trials),
        on_front=False,
    )


@dataclass(frozen=True)
class LeadingConfiguration:
    """A good configuration of an earlier sweep, and its dev score."""

    sweep: str
    """The first other sweep that tried it."""
    backbone: str
    values: dict[str, Any]
    """The values of all its hyperparameters."""
    mean: float
    """The mean dev score of its complete seeds, a fraction."""
    seeds: int


def leading_configurations(
    session: Session, *, method: str, backbone: str, dev_identity: str, but: str, limit: int
) -> list[LeadingConfiguration]:
    """Find the best configurations of a method in sweeps other than `but`, best first.

    All belong to one group, because means of different groups are not comparable: one of the same
    backbone if there is any, preferably with the same dev data; else the one with the most trials.
    """
    groups = session.scalars(select(GroupRecord).where(GroupRecord.method == method))

    def kinship(group: GroupRecord) -> tuple[bool, bool, int, int]:
        same_data = group.dev_identity == dev_identity
        return group.backbone == backbone, same_data, group.trials, -group.id

    configuration = ConfigurationRecord
    places = (
        select(SweepRecord.name)
        .join(SweepRecord.places)
        .join(SweepTrialRecord.trial)
        .where(TrialRecord.configuration_id == configuration.id, SweepRecord.name != but)
    )
    first = places.order_by(SweepRecord.id).limit(1).correlate(configuration).scalar_subquery()
    query = (
        select(first, configuration.values, configuration.mean, configuration.n)
        .where(
            configuration.n > 0,
            configuration.averages.is_(None),
            exists(places.correlate(configuration)),
        )
        .order_by(*best_first(configuration.n, configuration.mean, configuration.hash))
        .limit(limit)
    )
    for group in sorted(groups, key=kinship, reverse=True):
        if lines := session.execute(query.where(configuration.group_id == group.id)).all():
            return [
                LeadingConfiguration(sweep, group.backbone, values, mean or 0.0, seeds)
                for sweep, values, mean, seeds in lines
            ]
    return []


def format_measured(name: str, value: float) -> str:
    """Format a measured value for people, by the name of its objective or constraint."""
    if is_fraction(name):
        return percent(value)
    return clock(value) if name == SECONDS else f"{value:.4g}"


def front_table(front: ParetoFront) -> Table:
    """Make a table of the configurations on the front; a note counts the others."""
    on_front = [row for row in front.rows if row.on_front]
    others = len(front.rows) - len(on_front)
    broken = sum(not row.feasible for row in front.rows)
    infeasible = f", {broken} of them infeasible by {' and '.join(front.constraints)}"
    notes = [f"Not on it: {others} others{infeasible * (broken > 0)}."] if others else []
    columns = [
        _COLUMNS["trial"],
        _COLUMNS["configuration"],
        *_make_objective_columns(front),
        _COLUMNS["seeds"],
        _COLUMNS["settings"],
    ]
    objectives = ", ".join(map(str, front.objectives))
    return to_table(
        columns, [on_front], title=f"Pareto front of {front.sweep}: {objectives}", notes=notes
    )


def _make_objective_columns(front: ParetoFront) -> list[Column[FrontRow]]:
    def make_column(name: str) -> Column[FrontRow]:
        shown = f"dev {front.dev}" if name == "dev" else name
        return Column(
            name,
            lambda row: row.measured[name],
            lambda value: format_measured(name, value),
            title=f"{shown} x 100" if is_fraction(name) else shown,
            align="right",
        )

    return [make_column(objective.name) for objective in front.objectives]


_COLUMNS: dict[str, Column[FrontRow]] = {
    column.name: column
    for column in (
        Column[FrontRow](
            "configuration", lambda row: row.configuration, lambda digits: digits[:HASH_DIGITS]
        ),
        Column[FrontRow]("trial", lambda row: row.trial, align="right"),
        Column[FrontRow]("key", lambda row: row.key),
        Column[FrontRow](
            "seeds", lambda row: row.seeds, lambda seeds: str(len(seeds)), align="right"
        ),
        Column[FrontRow]("feasible", lambda row: row.feasible),
        Column[FrontRow]("on_front", lambda row: row.on_front),
        Column[FrontRow]("settings", lambda row: row.values, short_settings),
    )
}
"""All columns except the objectives; CSV has a column for each hyperparameter instead of
`settings`.
"""


def front_document(front: ParetoFront) -> Document:
    """Make the document of a front.

    CSV has a line for each configuration, on the front or not; hyperparameters come last.
    """
    names = dict.fromkeys(name for row in front.rows for name in row.values)

    def make_column(name: str) -> Column[FrontRow]:
        return Column(name, lambda row: row.values.get(name))

    columns = [column for name, column in _COLUMNS.items() if name != "settings"]
    columns += [*_make_objective_columns(front), *map(make_column, names)]
    objectives = [objective.model_dump() for objective in front.objectives]
    return Document(
        lambda _wide: [front_table(front)],
        lambda: to_csv(columns, front.rows),
        lambda: vars(front) | {"objectives": objectives},
    )
