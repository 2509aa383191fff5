"""What a view shows, as its address says it: read from there, and written into links."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import quote, urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from cse_dashboards.errors import AddressError
from cse_platform.sweep.reading.problems import dotted_path
from cse_platform.sweep.reading.pydantic_errors import problems_in


def listed(value: Any) -> Any:
    """Texts, each once, of one with commas between them or of several."""
    parts = value.split(",") if isinstance(value, str) else value
    return tuple(dict.fromkeys(part for part in parts if part))


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
"""Several at once, with commas between them; a form may repeat the parameter instead."""


class Address(BaseModel):
    """One view and what is chosen in it. Fields are query parameters, or parts of the path."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    PATH: ClassVar[str]
    """With the names of fields in braces."""
    LISTS: ClassVar[frozenset[str]] = frozenset()
    """Fields of the type `Names`."""

    @classmethod
    def read(cls, query: Iterable[tuple[str, str]], **path: str) -> Self:
        """The address with this query and these parts of the path.

        Parameters without a value are passed over: forms send all they have.

        Raises:
            AddressError: names each parameter that is unknown, repeated or means nothing.
        """
        given: dict[str, list[str]] = defaultdict(list)
        for name, value in query:
            if value:
                given[name].append(value)
        for name in cls.LISTS & given.keys():
            given[name] = [",".join(given[name])]
        if twice := [name for name, values in given.items() if len(values) > 1 or name in path]:
            raise AddressError(f"the address names {twice[0]!r} twice; once is enough")
        values: dict[str, Any] = {name: one for name, (one,) in given.items()}
        try:
            return cls.model_validate(values | path)
        except ValidationError as error:
            raise AddressError(_describe_problems(error, values | path, cls)) from error

    def link(self, **changes: Any) -> str:
        """The path and query of this view, with some of what is chosen changed."""
        changed = self.model_validate({**self.model_dump(), **changes})
        query = urlencode([(name, _text(value)) for name, value in changed.chosen()], safe=":,|@")
        return changed.path + (f"?{query}" if query else "")

    def under(self, prefix: str) -> str:
        """The link to what else is made of the same choice: a part of the view, or a file."""
        return prefix + self.link()

    def chosen(self) -> Iterator[tuple[str, Any]]:
        """The parameters of the query whose value is not the one they have if left out."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.default and f"{{{name}}}" not in self.PATH:
                yield name, value

    @property
    def path(self) -> str:
        return self.PATH.format(
            **{name: quote(str(value), safe="") for name, value in self.model_dump().items()}
        )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(value)
    return value.isoformat() if isinstance(value, date) else str(value)


def _describe_problems(error: ValidationError, given: dict[str, Any], model: type[Address]) -> str:
    problems = problems_in(error, given, model=model)
    return "; ".join(
        f"{dotted_path(one.path)}: {one.text}" if one.path else one.text for one in problems
    )
