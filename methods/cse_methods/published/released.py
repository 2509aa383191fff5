"""Encoders that authors released: which system each is, and what it was trained on.

`released.csv` beside this file lists the systems by the hub ids that their authors' own pages name,
with the backbone that training started from, and the commit of the weights, or `not known`. A trial
that only scores one, without training or whitening, stands for its system. `training_data.csv`
lists what authors declare that their encoders were trained on, with the page that says so; `mini`
is there by its name. Of an encoder that is not listed nobody has checked it: it is unknown.
"""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.encoders.short_names import HUB
from cse_methods.files.text import read_own_table

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
    head: str | None
    """`yes` if they read it after the dense layer with tanh that its weights have on [CLS]."""
    selected_on: str | None
    """The dev set that its authors chose it on, where it is not STS-B."""
    apart: str | None
    """What sets it apart from encoders of unlabelled text: `llm` or `supervised+llm`."""
    revision: str
    """The commit of its authors' weights on the hub, or `not known`."""

    @property
    def label(self) -> str:
        """The system, marked as one that is not trained here, with what sets it apart."""
        return self.system + MARK + (f" ({self.apart.replace('+', ', ')})" if self.apart else "")


class DeclaredTraining(NamedTuple):
    """What the authors of an encoder say that it was trained on."""

    encoder: str
    """Its hub id; of the package's own, its name."""
    trained_on: str
    """In words."""
    corpus: str | None
    """The name of the training corpus, where the package knows it."""
    pairs: bool
    """Whether it learned from pairs of sentences that people or web pages put together."""
    source: str
    """The page that says so."""


def released_encoder(
    method: str, backbone: str, values: Mapping[str, Any]
) -> ReleasedEncoder | None:
    """Find the released encoder that a configuration scores as its authors read it, or None.

    `backbone` is a short name or a hub id, with or without `@REVISION`.
    """
    row = _read_rows("released").get(backbone.partition("@")[0]) if method == SCORED_BY else None
    if row is None or values.get("whitening"):
        return None
    read_as = values.get("pooler"), bool(values.get("head"))
    as_released = read_as == (row["pooler"], row["head"] == "yes")
    return ReleasedEncoder(**_drop_empty_cells(row)) if as_released else None


def names_of_released(backbones: Collection[str]) -> list[str]:
    """List the names of the encoders that were trained from one of these backbones."""
    return [
        name for name, row in _read_rows("released").items() if row["trained_from"] in backbones
    ]


def declared_training(encoder: str) -> DeclaredTraining | None:
    """Find what an encoder is declared to be trained on, by its name or hub id, or None."""
    row = _read_rows("training_data").get(encoder.partition("@")[0])
    if row is None:
        return None
    return DeclaredTraining(**_drop_empty_cells(row) | {"pairs": row["pairs"] == "yes"})


def teachers_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a configuration's teachers, including those of its base method."""
    teachers = [*(values.get("teachers") or ()), *(values.get("base_teachers") or ())]
    return tuple(
        teacher["model"] if isinstance(teacher, Mapping) else str(teacher) for teacher in teachers
    )


def _drop_empty_cells(row: Mapping[str, str]) -> dict[str, Any]:
    return {name: value or None for name, value in row.items()}


@cache
def _read_rows(table: str) -> dict[str, dict[str, str]]:
    """Read the rows of a table, by the hub ids and the short names of their encoders."""
    rows = read_own_table(Path(__file__).with_name(f"{table}.csv"))
    ids = {row["encoder"]: row for row in rows}
    return ids | {name: ids[row["model"]] for name, row in HUB.items() if row["model"] in ids}
