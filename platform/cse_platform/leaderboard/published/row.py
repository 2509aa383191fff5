"""A row of a paper's table. Scores are fractions."""

from dataclasses import dataclass
from typing import Any, Literal

PublishedSplit = Literal["test", "dev", "train"]

SEEDS, SELECTED_ON, CORPUS = "seeds", "selected_on", "corpus"
CORPUS_OF_COSTS = "wiki1m"
"""What the papers train on whose costs are published; their tables do not say so."""
HARDWARE = {
    "compcse": "an NVIDIA A100 (40 GB)",
    "hicl": "an NVIDIA A40 (48 GB)",
    "rankcse": "an NVIDIA A100 (40 GB)",
}
"""What the costs of a paper were measured on."""
ABOUT_THE_RUN = frozenset({SEEDS, SELECTED_ON, CORPUS})
"""Settings that are no hyperparameters: over how many seeds the number is, which dev set chose it,
and the names of the training corpora with `+` between."""


@dataclass(frozen=True)
class PublishedRow:
    """What a paper's table says of one system on one backbone."""

    paper: str
    table: str
    backbone: str
    system: str
    """What was trained, as the paper names it."""
    method: str
    """Ours, where one of ours is the same; else the system."""
    settings: dict[str, str]
    """In the words of the paper."""
    configuration: dict[str, Any] | None
    """What one of our configurations must have to stand in this row: a value for each name, or
    `{"not": VALUE}`. None where nothing of ours corresponds."""
    split: PublishedSplit
    scores: dict[str, float]
    """By column, as in `FAMILIES`; those of `COSTS` in their own units."""
    std: dict[str, float]
    """Over seeds, of the columns that the table prints one for."""
    sources: tuple[str, ...]
    """Paper and table, e.g. `rankcse table2`; several where papers repeat the row."""
    unstated: tuple[str, ...] = ()
    """Columns of which the paper does not say how they are measured."""
    rerun: bool = False
    """Whether the paper ran another's method anew, instead of citing its numbers."""

    @property
    def own(self) -> bool:
        """Whether the paper is the one that the method comes from."""
        return self.paper == self.method

    @property
    def corpus(self) -> str | None:
        """The names of the training corpora, with `+` between; None where any will do."""
        return self.settings.get(CORPUS, CORPUS_OF_COSTS if self.split == "train" else None)

    @property
    def seeds(self) -> int | None:
        """Over how many seeds the numbers are; None where the table does not say."""
        return int(self.settings[SEEDS]) if SEEDS in self.settings else None

    @property
    def label(self) -> str:
        """The settings, as the paper words them."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())
