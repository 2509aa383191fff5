"""Which dev sets judge a trial, and their names."""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import ValidationInfo, field_validator, model_validator

from cse_methods.data.own.naming import register_own_set
from cse_methods.errors import nearest_hint
from cse_methods.own_pairs import OwnPairs
from cse_methods.settings import Settings, setting
from cse_methods.task_reference import Reference
from cse_methods.tasks import MAIN_SCORE, OwnSet

DevTask = Literal["stsb", "sickr", "transfer_dev"]
"""The dev sets of the package."""
DEV_TASKS: tuple[DevTask, ...] = get_args(DevTask)
ByWidth = Mapping[str, Mapping[int, float]]
"""Spearman's correlations by dev set, then by the number of first coordinates that are scored."""
_WIDTH = re.compile(r"dev/(?P<task>[\w.-]+)_spearman_width_(?P<width>\d+)")
_BETWEEN = "+"
"""Separator in the name of a mean of several sets; no set has it in its name."""


def sets_in(name: str) -> list[str]:
    """Split the name of a checkpoint or search criterion into its dev sets, mostly one."""
    return name.split(_BETWEEN)


class DevSelection(Settings):
    """Dev sets that pick a trial's checkpoint, that the search climbs, and that are only shown.

    A dev set is one of the package's; a lab's own file of pairs, given as a path or as the mapping
    of an `OwnPairs`; or a task, given as a `Reference`. Own pairs are named by their `name`, else
    by the file without its endings; `files` says what these sets are read from. The checkpoint
    criterion and the search criterion can each be the mean of several sets.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {
        key: f"write checkpoint: {{file: …{'' if key == 'file' else f', {key}: …'}}}"
        for key in OwnPairs.model_fields
    }
    files: dict[str, OwnSet] = setting(
        {},
        "own dev sets and tasks by name, gathered from the others",
        exclude_if=lambda files: not files,
    )
    checkpoint: str | tuple[str, ...] = setting("stsb", "one dev set, or several, whose mean picks")
    search: str | tuple[str, ...] = setting(
        "stsb", "one dev set, or several, whose mean is climbed"
    )
    also: tuple[str, ...] = ("sickr",)

    @model_validator(mode="before")
    @classmethod
    def _gather_files(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        gathered, files = dict(values), dict(values.get("files") or {})
        for role in ("checkpoint", "search", "also"):
            if isinstance(entries := values.get(role), (list, tuple)):
                gathered[role] = [
                    register_own_set(f"{role}.{number}", entry, files, dev=True)
                    for number, entry in enumerate(entries)
                ]
            elif role in values and role != "also":
                gathered[role] = register_own_set(role, entries, files, dev=True)
        return gathered | ({"files": files} if files else {})

    @field_validator("checkpoint", "search", "also")
    @classmethod
    def _refuse_unknown_sets(cls, names: str | tuple[str, ...], info: ValidationInfo) -> Any:
        """Order the sets of a mean too, so that the same sets in any order are the same choice."""
        known = (*DEV_TASKS, *info.data.get("files", {}))
        for name in (names,) if isinstance(names, str) else names:
            if name not in known:
                hint = nearest_hint(name, known)
                raise ValueError(
                    f"expected {', '.join(map(repr, known))}, a file of scored pairs such as "
                    "'./my-dev.tsv' or a task such as 'mteb:NAME', got "
                    f"{name!r}{'.' * bool(hint)}{hint}"
                )
        if isinstance(names, str) or info.field_name == "also":
            return names
        if not names or len(set(names)) < len(names):
            raise ValueError(f"expected one or more dev sets, each once, got {list(names)}")
        own = sorted(set(names) - set(DEV_TASKS))
        ordered = (*(name for name in DEV_TASKS if name in names), *own)
        return ordered if len(ordered) > 1 else ordered[0]

    @property
    def picking(self) -> tuple[str, ...]:
        """The dev sets whose mean picks the checkpoint, mostly one."""
        return (self.checkpoint,) if isinstance(self.checkpoint, str) else self.checkpoint

    @property
    def climbed(self) -> tuple[str, ...]:
        """The dev sets whose mean the search climbs, i.e. maximises; mostly one."""
        return (self.search,) if isinstance(self.search, str) else self.search

    @property
    def checkpoint_name(self) -> str:
        """Name of the checkpoint criterion, e.g. `stsb`, or `stsb+sickr` for a mean."""
        return _BETWEEN.join(self.picking)

    @property
    def search_name(self) -> str:
        """Name of the search criterion, in the same form."""
        return _BETWEEN.join(self.climbed)

    def with_means(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Add the metrics of the checkpoint criterion and of the search criterion if they are
        means.
        """
        means = {
            dev_metric(_BETWEEN.join(sets)): sum(metrics[dev_metric(name)] for name in sets)
            / len(sets)
            for sets in (self.picking, self.climbed)
            if len(sets) > 1
        }
        return {**metrics, **means}

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of all dev sets in use, each once."""
        return tuple(dict.fromkeys((*self.picking, *self.climbed, *self.also)))

    @property
    def geometry(self) -> str | None:
        """The dev set on which alignment and uniformity are measured; None if no set has pairs.

        It is STS-B if that is in use; else the first set of pairs among those that pick the
        checkpoint, then those that the search climbs, then those that are only shown.
        """
        others = {"transfer_dev", *self.references}
        pairs = [name for name in self.tasks if name not in others]
        return "stsb" if "stsb" in pairs else next(iter(pairs), None)

    @property
    def references(self) -> dict[str, Reference]:
        """The tasks among the dev sets, by name."""
        return {name: own for name, own in self.files.items() if isinstance(own, Reference)}

    def names(self) -> dict[str, Any]:
        """Dump roles and names as JSON, without the files, whose paths may change."""
        return self.model_dump(mode="json", exclude={"files"})

    def with_files(self, change: Callable[[OwnSet], OwnSet]) -> Self:
        """Return a copy with `change` applied to each own set, e.g. to make its path absolute."""
        files = {name: change(own) for name, own in self.files.items()}
        return self.model_copy(update={"files": files})


def dev_metric(task: str) -> str:
    """Return the name of a dev set's metric, e.g. `dev/stsb_spearman`.

    For `transfer_dev` it is the mean over the seven transfer tasks; for a task, whose name begins
    with its kind, its main score, e.g. `dev/mteb:NFCorpus_main_score`; for a mean of several sets,
    e.g. `stsb+sickr`, it is `dev/stsb_sickr_mean`.
    """
    if _BETWEEN in task:
        return f"dev/{task.replace(_BETWEEN, '_')}_mean"
    if task == "transfer_dev":
        return "dev/avg_transfer_accuracy"
    return f"dev/{task}_{MAIN_SCORE if ':' in task else 'spearman'}"


def width_metric(task: str, width: int) -> str:
    """Return the name of a dev set's metric for so many first coordinates of each vector."""
    return f"{dev_metric(task)}_width_{width}"


def parse_width_metric(metric: str) -> tuple[str, int] | None:
    """Return the dev set and the width of a metric named by `width_metric`; None for others."""
    found = _WIDTH.fullmatch(metric)
    return None if found is None else (found["task"], int(found["width"]))


def scores_by_width(metrics: Mapping[str, float | None]) -> ByWidth:
    """Collect the scores of a dev point at several widths; empty if it has none."""
    curves = dict[str, dict[int, float]]()
    for name, value in metrics.items():
        if value is not None and (parsed := parse_width_metric(name)) is not None:
            task, width = parsed
            curves.setdefault(task, {})[width] = value
    return curves
