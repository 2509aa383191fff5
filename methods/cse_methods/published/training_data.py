"""What authors declare that their encoders were trained on.

`training_data.csv` beside this file lists them by their hub ids, and `mini` by its name, each with
the page that says so.
Of an encoder that is not listed nobody has checked it: it is unknown.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.encoders.short_names import HUB


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


def declared_training(encoder: str) -> DeclaredTraining | None:
    """What is declared of an encoder, by its short name or hub id; None where it is unknown."""
    return _by_name().get(encoder.partition("@")[0])


def teachers_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a configuration's teachers, including those of its base method."""
    teachers = [*(values.get("teachers") or ()), *(values.get("base_teachers") or ())]
    return tuple(
        teacher["model"] if isinstance(teacher, Mapping) else str(teacher) for teacher in teachers
    )


@cache
def _by_name() -> Mapping[str, DeclaredTraining]:
    """The encoders by hub id and by short name."""
    table = Path(__file__).with_name("training_data.csv")
    with table.open(newline="", encoding="utf-8") as stream:
        ids = {
            row["encoder"]: DeclaredTraining(
                encoder=row["encoder"],
                trained_on=row["trained_on"],
                corpus=row["corpus"] or None,
                pairs=row["pairs"] == "yes",
                source=row["source"],
            )
            for row in csv.DictReader(stream, strict=True)
        }
    short = {name: model for models in HUB.values() for name, model in models.items()}
    return ids | {name: ids[model] for name, model in short.items() if model in ids}
