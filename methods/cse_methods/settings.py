"""The base class of everything that is read from a file, and fields that cite the paper."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """Base of everything that is read from a file: frozen, without unknown keys or infinities."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def setting(default: Any, *, symbol: str = "", source: str = "", **field: Any) -> Any:
    """A pydantic field with its symbol in the paper and its place there.

    Args:
        default: the value where a file gives none.
        symbol: of the paper, e.g. "τ".
        source: its place in the paper, e.g. "eq. 2", or "released code".
        field: the field's description and bounds, as for `pydantic.Field`.
    """
    return Field(default=default, json_schema_extra={"symbol": symbol, "source": source}, **field)
