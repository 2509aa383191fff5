"""The `evaluate:` block: which trials are scored on test sets, and on which."""

from typing import Annotated

from pydantic import Field, field_validator

from cse_methods.errors import EvaluationError
from cse_methods.settings import Settings
from cse_methods.tasks import parse_tasks


class Evaluate(Settings):
    """Which trials are scored on test sets."""

    top: int = Field(strict=True, ge=1, description="how many configurations, chosen on dev")
    tasks: tuple[str, ...] = Field(
        min_length=1, description="`sts`, `transfer`, `ranking`, `geometry`, `long`, or single ones"
    )
    slicing_length: Annotated[int, Field(strict=True, ge=3)] | None = Field(
        default=None, description="read texts by segments of so many word pieces, as HiCL does"
    )

    @field_validator("tasks")
    @classmethod
    def _check_known(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        try:
            parse_tasks(words)
        except EvaluationError as problem:
            raise ValueError(str(problem)) from None
        return words
