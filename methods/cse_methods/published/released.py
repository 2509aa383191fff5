"""Encoders that authors released: which system each is, and the backbone it was trained from.

`released.csv` beside this file lists them by their hub ids, which are those that their authors' own
pages name. A trial that only scores one, without training or whitening, stands for its system.
"""

import csv
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.encoders.short_names import HUB

SCORED_BY = "untrained"
"""The method that trains nothing."""
MARK = " (released)"
"""What follows a system's name where its encoder was not trained here."""


class ReleasedEncoder(NamedTuple):
    """An encoder that its authors published."""

    encoder: str
    """Its hub id."""
    system: str
    """What it is, as papers' tables name it: `diffcse`."""
    trained_from: str
    """The backbone, by its short name; `non-bert`, as tables have it, of word vectors."""
    pooler: str
    """How its authors read it."""
    selected_on: str | None
    """The dev set that its authors chose it on, where it is not STS-B."""

    @property
    def label(self) -> str:
        """The system, marked as one that is not trained here."""
        return self.system + MARK


def released_encoder(
    method: str, backbone: str, values: Mapping[str, Any]
) -> ReleasedEncoder | None:
    """The released encoder that a configuration scores as its authors read it; None for others.

    `backbone` is a short name or a hub id, with or without `@REVISION`.
    """
    known = _by_name().get(backbone.partition("@")[0]) if method == SCORED_BY else None
    as_released = known and values.get("pooler") == known.pooler and not values.get("whitening")
    return known if as_released else None


def names_of_released(backbones: Collection[str]) -> list[str]:
    """The names of the encoders that were trained from one of these backbones."""
    return [name for name, one in _by_name().items() if one.trained_from in backbones]


@cache
def _by_name() -> dict[str, ReleasedEncoder]:
    """The encoders by hub id and by short name."""
    with Path(__file__).with_name("released.csv").open(newline="", encoding="utf-8") as stream:
        ids = {
            row["encoder"]: ReleasedEncoder(
                encoder=row["encoder"],
                system=row["system"],
                trained_from=row["trained_from"],
                pooler=row["pooler"],
                selected_on=row["selected_on"] or None,
            )
            for row in csv.DictReader(stream, strict=True)
        }
    short = {name: model for models in HUB.values() for name, model in models.items()}
    return ids | {name: ids[model] for name, model in short.items() if model in ids}
