"""Build rehearsals: the stages and evaluations of a sweep on an encoder that takes seconds.

Everything large is replaced, and the replacements are reported. A value that is impossible with
`mini` becomes the nearest possible one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.contract import TrainingConfig
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.source import data_source
from cse_methods.encoders.backbones import backbone_width
from cse_methods.errors import TrainingError
from cse_platform.sweep.blocks import Resources, Search, Stores
from cse_platform.sweep.conditions import SIGNS, Condition
from cse_platform.sweep.objectives import GPU_HOURS
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.references import BestReference, replace_best_references
from cse_platform.sweep.samplers import Random
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec, best_references
from cse_platform.sweep.values import canonical_json
from cse_platform.urls import sqlite_url

SMOKE = "smoke"
"""The tag of rehearsals, and the name of their folder inside the runs folder."""
ENCODER = "mini"
"""The encoder that replaces every backbone and teacher."""
SENTENCES = 1000
"""The most sentences of a corpus that are trained on."""
BRIEF = {"max_steps": 2, "eval_steps": 2, "precision": "fp32"}
"""Settings of every rehearsed training; a step in half precision takes a minute on a CPU."""
BATCH_SHARE, SMALLEST_BATCH = 8, 8
"""A batch is divided by 8, so that different sizes stay different, but not to below 8."""
WHOLE_GRID = 24
"""The largest grid that is tried whole; of a larger one, every value is tried."""
DRAWN = 2
"""The number of trials that the sampler draws after those of each value."""
AT_MOST_WIDTH = ("d0",)
"""Settings that may not exceed the encoder's width, which `check_width` does not check."""


class Replacements:
    """Replacements for the values of settings, in `fixed`, `space` and start points alike."""

    def __init__(self, spec: SweepSpec, earlier: Iterable[SweepSpec]) -> None:
        """Collect what to replace in a sweep that comes after other stages of its file."""
        configs = [spec.config(example) for example in spec.examples]
        conditions = {condition.name for _, d in spec.space.items() for condition in d.when}
        references = {reference.placeholder for reference in best_references(spec)}
        self._trains = issubclass(spec.find_method().config, TrainingConfig)
        self._divides = self._trains and "batch_size" not in conditions
        self._encoders = {name for config in configs for name in config.encoders()} - references
        self._files = {name for config in configs for name in config.files()}  # of another corpus
        self._trained = {stage.method for stage in earlier}
        self._nearest: dict[tuple[str, str], Any] = {}
        fields = spec.find_method().config.model_fields
        replaced = {*BRIEF, "batch_size"} - {*spec.space} if self._trains else set()
        self.fixed = {name: fields[name].default for name in replaced} | spec.fixed
        for example in spec.examples:
            self._replace_impossible(spec, self.fixed | spec.space.active(example))

    def replace_point(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by name, each replaced."""
        return {name: self.replace_value(name, value) for name, value in values.items()}

    def replace_value(self, name: str, value: Any) -> Any:
        """Return the replacement of a setting's value."""
        value = self._shrink_value(name, value)
        return self._nearest.get((name, canonical_json(value)), value)

    def replace_dimension(self, name: str, dimension: Dimension) -> Dimension:
        """Replace a dimension's values; a range whose bounds change becomes a choice of the two."""
        conditions = []
        for condition in dimension.when:
            if condition.sign not in SIGNS:  # which compare numbers
                values = (self.replace_value(condition.name, value) for value in condition.values)
                condition = Condition(condition.name, condition.sign, _drop_duplicates(values))
            conditions.append(condition)
        when, ends = tuple(conditions), [self.replace_value(name, end) for end in dimension.ends]
        if isinstance(dimension, Choices) or tuple(ends) != dimension.ends:
            return Choices(choices=_drop_duplicates(ends), when=when)
        return dimension.model_copy(update={"when": when})

    def _shrink_value(self, name: str, value: Any) -> Any:
        """Return the replacement of a setting's value, whether or not `mini` can have it."""
        if self._trains and name in BRIEF:
            return BRIEF[name]
        if name == "head" and not self._trains:  # of the encoder, which `mini` has not
            return None
        if self._divides and name == "batch_size":
            return min(value, max(SMALLEST_BATCH, value // BATCH_SHARE))

        def replace_reference(reference: BestReference) -> Any:
            if reference.method not in self._trained:
                return ENCODER
            return {"best": {"method": reference.method, "backbone": ENCODER}}

        def replace_names(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: replace_names(inner) for key, inner in value.items() if key != "head"}
            if isinstance(value, (list, tuple)):
                return [replace_names(inner) for inner in value]
            if not isinstance(value, str):
                return value
            return None if value in self._files else ENCODER if value in self._encoders else value

        return replace_names(replace_best_references(value, replace_reference))

    def _replace_impossible(self, spec: SweepSpec, values: Mapping[str, Any]) -> None:
        """Find the single integer whose nearest possible value lets `mini` train with these values.

        The size of a batch comes first, which may be up to the original one.
        """
        config, width = spec.find_method().config, backbone_width(ENCODER) or 0
        settings = spec.settings({}) | self.replace_point(values) | {"backbone": ENCODER}

        def is_trainable(**change: int) -> bool:
            changed = settings | change
            try:
                config.model_validate(changed).check_width(width)
            except (ValidationError, TrainingError):
                return False
            return all((changed.get(name) or 0) <= width for name in AT_MOST_WIDTH)

        if is_trainable():
            return
        for name in sorted(values.keys() - BRIEF, key=lambda name: name != "batch_size"):
            value = settings[name]
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            others: Iterable[int] = sorted(range(1, 2 * value + 1), key=lambda n: abs(n - value))
            if name == "batch_size":
                others = range(value + 1, max(value, values[name]) + 1)
            if (other := next((n for n in others if is_trainable(**{name: n})), None)) is not None:
                given = canonical_json(self._shrink_value(name, values[name]))
                self._nearest[name, given] = other
                return


@dataclass(frozen=True)
class Rehearsal:
    """A small sweep that runs instead of the original."""

    original: SweepSpec
    spec: SweepSpec
    replacements: Replacements

    def describe_changes(self) -> Iterator[str]:
        """Name the keys whose values are replaced, but those of places, one line each."""

        def flatten(spec: SweepSpec) -> dict[str, Any]:
            content = spec.model_dump(mode="json", exclude={"stores", "storage", "tags", "smoke"})
            for block in ("fixed", "space", "search", "seeds", "resources"):
                inner = content.pop(block)
                content |= {f"{block}.{key}": value for key, value in inner.items()}
            corpora = [corpus.short_name for corpus in spec.corpus]
            return content | {"corpus": corpora, "pruner": spec.pruner.kind}

        old, new = flatten(self.original), flatten(self.spec)
        for key in dict.fromkeys([*old, *new]):
            if (was := old.get(key)) != (becomes := new.get(key)):
                yield f"{key}: {format_value(was)} becomes {format_value(becomes)}"


def rehearse(stages: Sequence[SweepSpec], runs: Path) -> list[Rehearsal]:
    """Build the rehearsals of a file's sweeps, which have their own stores in the folder `runs`.

    Raises DataError if `data` or CSE_DATA is not a data folder.
    """
    rehearsals = []
    for index, spec in enumerate(stages):
        replacements = Replacements(spec, stages[:index])
        changes = _override_keys(spec, replacements, [stage.sweep for stage in stages[:index]])
        small = spec.model_copy(update=changes | own_stores(runs))
        small = SweepSpec.model_validate(small.model_dump(mode="json"))
        rehearsals.append(Rehearsal(spec, small, replacements))
    return rehearsals


def own_stores(runs: Path) -> dict[str, Any]:
    """Make the keys that put a sweep's stores into one folder, whatever the environment says."""
    files = {"leaderboard": "leaderboard.db", "search": "search.db", "mlflow": "mlflow.db"}
    urls = {name: sqlite_url(runs.absolute() / file) for name, file in files.items()}
    return {"stores": Stores(**urls), "storage": None}


def _override_keys(
    spec: SweepSpec, replacements: Replacements, earlier: Sequence[str]
) -> dict[str, Any]:
    """Make the keys of a sweep that replace what is large in it."""
    corpora = []
    for corpus in spec.corpus:  # a table with columns keeps its own first rows
        first = min(corpus.first or SENTENCES, SENTENCES)
        builtin = CorpusSpec(name="builtin", first=first, split_at=corpus.split_at)
        own = corpus.model_copy(update={"first": first})
        corpora.append(own if corpus.columns else builtin)
    seeds = spec.seeds
    if seeds.confirm is not None and seeds.further:
        confirm = seeds.confirm.model_copy(update={"seeds": seeds.further[:1]})
        seeds = seeds.model_copy(update={"confirm": confirm})
    space = Space({n: replacements.replace_dimension(n, d) for n, d in spec.space.items()})
    return {
        "backbone": ENCODER,
        "corpus": tuple(dict.fromkeys(corpora)),
        "data": spec.data if isinstance(data_source(spec.data), Path) else "builtin",
        "fixed": replacements.replace_point(replacements.fixed),
        "space": space,
        "search": _build_search(spec, space, replacements, earlier),
        "pruner": NoPruner(),
        "seeds": seeds,
        "resources": Resources(fresh_process=spec.resources.fresh_process),
        "notify": (),
        "tags": tuple(dict.fromkeys((*spec.tags, SMOKE))),
        "smoke": True,
    }


def _build_search(
    spec: SweepSpec, space: Space, replacements: Replacements, earlier: Sequence[str]
) -> Search:
    """Build a search that tries every value of the replaced space."""
    search = spec.search
    is_grid = search.sampler.kind == "grid"
    if is_grid and 0 < (space.count_grid(most=WHOLE_GRID + 1) or 0) <= WHOLE_GRID:
        return Search(sampler=search.sampler, seed=search.seed)
    tried, covered = list[dict[str, Any]](), set[str]()
    for point in spec.examples:
        there = space.active(replacements.replace_point(point))
        values = {canonical_json(item) for item in there.items()}
        if not values <= covered:
            covered |= values
            tried.append(there)
    objectives = tuple(goal for goal in search.objectives if goal.name != GPU_HOURS)
    return search.model_copy(
        update={
            "learn_from": tuple(name for name in search.learn_from if name in earlier),
            "objectives": objectives if len(objectives) > 1 else (),
            "sampler": Random() if is_grid else search.sampler,
            "trials": max(1, len(tried) + (0 if is_grid else DRAWN)),
            "budget": None,
            "constraints": (),
            "start_from": tuple(tried),
        }
    )


def _drop_duplicates(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({canonical_json(value): value for value in values}.values())
