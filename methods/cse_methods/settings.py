"""What is read from a file: its base class, and fields that say where the paper has them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """Base of what is read from a file: unknown keys and infinities are refused; it is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def setting(default: Any, *, symbol: str = "", source: str = "", **told: Any) -> Any:
    """A pydantic field with what the paper calls it and where it stands there.

    Args:
        default: the value where a file gives none.
        symbol: of the paper, e.g. "τ".
        source: where the paper, or its released code, has it, e.g. "eq. 2".
        told: the field's description and bounds, as for `pydantic.Field`.
    """
    return Field(default=default, json_schema_extra={"symbol": symbol, "source": source}, **told)
