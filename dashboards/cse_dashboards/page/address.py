"""The URLs of the views, with the choices that each view has; parsed and built here."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import quote, urlencode

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.labels import Encoded
from cse_methods.settings import Settings
from cse_platform.leaderboard.families import BENCHMARK, FAMILIES, FamilyName
from cse_platform.leaderboard.filters import Filters, parse_since
from cse_platform.leaderboard.trials_table import TrialChoice
from cse_platform.sweep.conditions import (
    LONGEST,
    Condition,
    format_conditions,
    parse_conditions,
    write_value,
)
from cse_platform.sweep.problems import did_you_mean, dotted_path, problems_in


def split_list(value: Any) -> Any:
    """Split a text at commas, or accept several texts; repeats are dropped."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(dict.fromkeys(part for part in parts if part))


Names = Annotated[tuple[str, ...], BeforeValidator(split_list)]
"""Names separated by commas; a form can repeat the parameter instead."""


def check_family(name: str) -> str:
    """Return the name of a family of test scores; ValueError if there is none of that name."""
    if name in FAMILIES or name.startswith(BENCHMARK):
        return name
    listed = ", ".join(map(repr, FAMILIES))
    hint = did_you_mean(name, FAMILIES)
    raise ValueError(f"expected {listed} or '{BENCHMARK}…', got {name!r}{hint}")


Family = Annotated[FamilyName, AfterValidator(check_family)]


class Address(Settings):
    """A view and its choices. Fields are query parameters or parts of the path."""

    PATH: ClassVar[str]
    """The path, with field names in braces."""
    LISTS: ClassVar[frozenset[str]] = frozenset()
    """Fields of the type `Names`."""

    @classmethod
    def read(cls, query: Iterable[tuple[str, str]], **path: str) -> Self:
        """Parse an address from its query and parts of its path.

        Parameters with an empty value are ignored, because forms send all their fields.

        Raises:
            AddressError: names each parameter that is unknown, repeated or invalid.
        """
        given: dict[str, list[str]] = defaultdict(list)
        for name, value in query:
            if value:
                given[name].append(value)
        for name in cls.LISTS & given.keys():
            given[name] = [",".join(given[name])]
        if twice := [name for name, values in given.items() if len(values) > 1 or name in path]:
            raise AddressError(f"the address names {twice[0]!r} twice; once is enough")
        values: dict[str, Any] = {name: value for name, (value,) in given.items()}
        for name, value in (values | path).items():
            if len(value) > LONGEST:
                raise AddressError(f"{name}: expected at most {LONGEST} characters")
        try:
            return cls.model_validate(values | path)
        except ValidationError as error:
            problems = problems_in(error, values | path, model=cls)
            texts = [(dotted_path(problem.path), problem.text) for problem in problems]
            raise AddressError(
                "; ".join(f"{name}: {text}" if name else text for name, text in texts)
            ) from error

    def link(self, **changes: Any) -> str:
        """Return the path and query of this view, with some choices changed."""
        changed = self.model_validate({**self.model_dump(), **changes})
        texts = {}
        for name, value in changed.iterate_chosen():
            if isinstance(value, bool):
                texts[name] = "yes" if value else "no"
            elif isinstance(value, tuple):
                texts[name] = ",".join(value)
            else:
                texts[name] = str(value)
        query = urlencode(texts, safe=":,|@")
        return changed.path + (f"?{query}" if query else "")

    def part_link(self, prefix: str) -> str:
        """Return the link to a part of the view or to a file, with the same choices."""
        return prefix + self.link()

    def iterate_chosen(self) -> Iterator[tuple[str, Any]]:
        """Yield the query parameters whose values differ from the defaults."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.default and f"{{{name}}}" not in self.PATH:
                yield name, value

    @property
    def path(self) -> str:
        return self.PATH.format(
            **{name: quote(str(value), safe="") for name, value in self.model_dump().items()}
        )


ROWS_COMPARED = 16
"""Most rows to compare: each has a column in every table, and links list all of them."""


class _Filtered(Address):
    backbone: str | None = None
    method: str | None = None
    sweep: str | None = None
    tag: str | None = None
    hardware: str | None = None
    identity: str | None = None
    since: str | None = None

    @field_validator("since")
    @classmethod
    def _check_since(cls, since: str | None) -> str | None:
        if since is not None:
            parse_since(since)
        return since

    @property
    def filters(self) -> Filters:
        """The filters for the rows."""
        since = parse_since(self.since) if self.since else None
        return Filters(**self.model_dump(include=_FILTERS - {"since"}), since=since)


_FILTERS = set(_Filtered.model_fields)


class BoardAddress(_Filtered):
    """The leaderboard."""

    PATH = "/"
    tasks: Family | None = None
    sort: str | None = None
    """The column that rows are sorted by; by default, that which ranks them."""
    every: bool = False
    """Whether to show all configurations instead of the best of each group on dev."""
    published: bool = False
    against: str | None = None
    """The reference row of significance tests: METHOD or METHOD@CONFIGURATION."""
    search: str | None = None
    """Words that each row must contain."""


class PapersAddress(Address):
    """The papers' tables and figures."""

    PATH = "/papers"


class PaperTableAddress(_Filtered):
    """One table of a paper, with our results beside the paper's."""

    PATH = "/papers/{paper}/{table}"
    paper: str
    table: str


class SweepsAddress(Address):
    """All sweeps."""

    PATH = "/sweeps"
    page: int = Field(default=1, ge=1)


class SweepAddress(Address):
    """One sweep."""

    PATH = "/sweeps/{name}"
    name: str
    metric: str | None = None
    """The metric of the dev curves; by default, that which the search climbs."""
    x: str | None = None
    y: str | None = None
    """The second of two hyperparameters `x` and `y`, for the contour and the surface."""
    where: str = ""
    """A filter for the trials of the table and all figures, as in `parse_conditions`."""
    narrow: str | None = None
    to: str | None = None
    """A value, or all of a further condition but the name `narrow`, from a form; it is added to
    `where`.
    """
    state: Literal["RUNNING", "COMPLETE", "PRUNED", "FAIL"] | None = None
    sort: str = "-number"
    """A column of the table of trials; a leading `-` sorts in descending order."""
    page: int = Field(default=1, ge=1)
    columns: Names = ()
    """Columns of the table; by default all that are offered."""
    LISTS = frozenset({"columns"})

    @model_validator(mode="before")
    @classmethod
    def _join_condition(cls, given: dict[str, Any]) -> dict[str, Any]:
        name, allowed = given.get("narrow"), given.get("to")
        if not (name and allowed):
            return given | {"narrow": None, "to": None}
        equals = "" if re.match(r"\s*([<>=]|in\s*\[)", allowed) else "= "
        parts = (given.get("where"), f"{write_value(name)} {equals}{allowed}")
        return given | {"where": " and ".join(filter(None, parts)), "narrow": None, "to": None}

    @field_validator("where")
    @classmethod
    def _normalize_where(cls, text: str) -> str:
        return format_conditions(parse_conditions(text))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions that shown trials must meet."""
        return parse_conditions(self.where)

    def link_without(self, condition: Condition) -> str:
        """Return the address of the same trials and those that fail this condition alone."""
        others = [other for other in self.conditions if other != condition]
        return self.link(where=format_conditions(others), page=1)

    @property
    def choice(self) -> TrialChoice:
        """The trials of the table, and their order."""
        column = self.sort.removeprefix("-")
        measured = tuple(name for name in self.columns if "/" in name)
        descending = column != self.sort
        return TrialChoice(self.conditions, self.state, column, descending, measured)


class StopAddress(Address):
    """The confirmation before a sweep, or one of its trials, is stopped."""

    PATH = "/sweeps/{name}/stop"
    name: str
    trial: int | None = None
    """The trial's number."""


class TrialAddress(Address):
    """One trial."""

    PATH = "/trials/{key}"
    key: str


class CompareAddress(Address):
    """Rows of the leaderboard side by side, each compared with the first."""

    PATH = "/compare"
    rows: Names = ()
    """Each is METHOD, METHOD@CONFIGURATION or the beginning of a trial's key."""
    tasks: Family = "sts"
    backbone: str | None = None
    identity: str | None = None
    task: str | None = None
    """The task of the plotted pairs; by default, the first that both rows have."""
    x: str | None = None
    y: str | None = None
    """The second of the rows `x` and `y` whose pairs are plotted; by default, the first two."""
    metric: str | None = None
    """The metric of the curves; by default, the dev scores that the searches climb."""
    LISTS = frozenset({"rows"})

    @field_validator("rows")
    @classmethod
    def _check_row_count(cls, rows: tuple[str, ...]) -> tuple[str, ...]:
        if len(rows) > ROWS_COMPARED:
            raise ValueError(f"at most {ROWS_COMPARED} rows are compared at once, got {len(rows)}")
        return rows

    @property
    def filters(self) -> Filters:
        """Filters that narrow down the rows that references can name."""
        return Filters(backbone=self.backbone, identity=self.identity)

    def link_without(self, row: str) -> str:
        """Return the link to the other rows."""
        return self.link(rows=[name for name in self.rows if name != row])

    def link_against(self, row: str) -> str:
        """Return the link to the same rows, each compared with this one."""
        return self.link(rows=[row, *self.rows])


class GeometryAddress(_Filtered):
    """Figures of the geometry of embeddings."""

    PATH = "/geometry"
    show: Encoded | None = None
    """The figure to draw that needs models."""
    sentences: str | None = None
    """Sentences of the heat map, one per line."""
    by: Literal["pca", "umap"] = "pca"
    query: str | None = None
    """The query of the case study."""
