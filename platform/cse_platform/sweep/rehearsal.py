"""Build rehearsals: the stages and evaluations of a sweep on an encoder that takes seconds.

Everything large is replaced, and the replacements are reported. A value that is impossible with
`mini` becomes the nearest possible one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from cse_platform.sweep.start_points import start_points
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
"""The number of trials that the sampler draws after the given points."""
AT_MOST_WIDTH = ("d0",)
"""Settings that may not exceed the encoder's width, which `check_width` does not check."""


@dataclass(frozen=True)
class Replacements:
    """Replacements for the values of settings, in `fixed`, `space` and start points alike."""

    trains: bool
    divides: bool
    """Whether batches are divided; not if conditions depend on their size."""
    encoders: frozenset[str]
    """Names of encoders that `mini` replaces."""
    files: frozenset[str]
    """Names of files that belong to another corpus and become None."""
    trained: frozenset[str]
    """Methods of earlier stages, which will have trained a best encoder."""
    nearest: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Replacements of impossible values, by setting and the value's JSON."""

    def replace_point(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by name, each replaced."""
        return {name: self.replace_value(name, value) for name, value in values.items()}

    def replace_value(self, name: str, value: Any) -> Any:
        """Return the replacement of a setting's value."""
        value = self.shrink_value(name, value)
        return self.nearest.get((name, canonical_json(value)), value)

    def shrink_value(self, name: str, value: Any) -> Any:
        """Return the replacement of a setting's value, whether or not `mini` can have it."""
        if self.trains and name in BRIEF:
            return BRIEF[name]
        if name == "head" and not self.trains:  # of the encoder, which `mini` has not
            return None
        if self.divides and name == "batch_size":
            return min(value, max(SMALLEST_BATCH, value // BATCH_SHARE))

        def replace_reference(reference: BestReference) -> Any:
            if reference.method not in self.trained:
                return ENCODER
            return {"best": {"method": reference.method, "backbone": ENCODER}}

        def replace_names(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {key: replace_names(inner) for key, inner in value.items() if key != "head"}
            if isinstance(value, (list, tuple)):
                return [replace_names(inner) for inner in value]
            if not isinstance(value, str):
                return value
            return None if value in self.files else ENCODER if value in self.encoders else value

        return replace_names(replace_best_references(value, replace_reference))

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


@dataclass(frozen=True)
class Rehearsal:
    """A small sweep that runs instead of the original."""

    original: SweepSpec
    spec: SweepSpec
    replacements: Replacements
    changes: tuple[str, ...]
    """Changes that are specific to this sweep, one line each."""


def rehearse(stages: Sequence[SweepSpec], runs: Path) -> list[Rehearsal]:
    """Build the rehearsals of a file's sweeps, which have their own stores in the folder `runs`.

    Raises DataError if `data` or CSE_DATA is not a data folder.
    """
    return [_build_rehearsal(spec, stages[:index], runs) for index, spec in enumerate(stages)]


def own_stores(runs: Path) -> dict[str, Any]:
    """Make the keys that put a sweep's stores into one folder, whatever the environment says."""
    files = {"leaderboard": "leaderboard.db", "search": "search.db", "mlflow": "mlflow.db"}
    urls = {name: sqlite_url(runs.absolute() / file) for name, file in files.items()}
    return {"stores": Stores(**urls), "storage": None}


def _build_rehearsal(spec: SweepSpec, earlier: Sequence[SweepSpec], runs: Path) -> Rehearsal:
    configs = [spec.config(example) for example in spec.examples]
    fields = spec.find_method().config.model_fields
    trains = issubclass(spec.find_method().config, TrainingConfig)
    replaced = (*BRIEF, "batch_size") if trains else ()
    fixed = {name: fields[name].default for name in replaced if name not in spec.space} | spec.fixed
    conditions = [condition for _, d in spec.space.items() for condition in d.when]
    replacements = Replacements(
        trains=trains,
        divides=trains and all(condition.name != "batch_size" for condition in conditions),
        encoders=frozenset(name for config in configs for name in config.encoders())
        - {reference.placeholder for reference in best_references(spec)},
        files=frozenset(name for config in configs for name in config.files()),
        trained=frozenset(stage.method for stage in earlier),
    )
    for example in spec.examples:
        _replace_impossible(spec, replacements, fixed | spec.space.active(example))
    space = Space({n: replacements.replace_dimension(n, d) for n, d in spec.space.items()})
    small = _shrink_sweep(
        spec,
        space=space,
        fixed=replacements.replace_point(fixed),
        search=_build_search(spec, space, replacements, [stage.sweep for stage in earlier]),
        **own_stores(runs),
    )
    changes = tuple(_describe_changes(spec, small, replacements))
    return Rehearsal(spec, small, replacements, changes)


def _replace_impossible(
    spec: SweepSpec, replacements: Replacements, values: Mapping[str, Any]
) -> None:
    """Find the single integer whose nearest possible value lets `mini` train with these values.

    The size of a batch comes first, which may be up to the original one.
    """
    config, width = spec.find_method().config, backbone_width(ENCODER) or 0
    settings = spec.settings({}) | replacements.replace_point(values) | {"backbone": ENCODER}

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
        for other in others:
            if is_trainable(**{name: other}):
                given = canonical_json(replacements.shrink_value(name, values[name]))
                replacements.nearest[name, given] = other
                return


def _shrink_sweep(spec: SweepSpec, **changes: Any) -> SweepSpec:
    """Replace what is large in a sweep, change these keys, and validate the result as a file."""
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
    changes |= {
        "backbone": ENCODER,
        "corpus": tuple(dict.fromkeys(corpora)),
        "data": spec.data if isinstance(data_source(spec.data), Path) else "builtin",
        "pruner": NoPruner(),
        "seeds": seeds,
        "resources": Resources(fresh_process=spec.resources.fresh_process),
        "notify": (),
        "tags": tuple(dict.fromkeys((*spec.tags, SMOKE))),
        "smoke": True,
    }
    return SweepSpec.model_validate(spec.model_copy(update=changes).model_dump(mode="json"))


def _build_search(
    spec: SweepSpec, space: Space, replacements: Replacements, earlier: Sequence[str]
) -> Search:
    """Build a search that tries every value of the replaced space."""
    search = spec.search
    is_grid = search.sampler.kind == "grid"
    if is_grid and 0 < (space.count_grid(most=WHOLE_GRID + 1) or 0) <= WHOLE_GRID:
        return Search(sampler=search.sampler, seed=search.seed)
    tried, covered = dict[str, dict[str, Any]](), set[str]()
    starts = [point for point in start_points(spec, spec.find_method()) if point]
    for index, point in enumerate([*spec.examples, *starts]):
        there = replacements.replace_point(point)
        if not all(space[name].has(value) for name, value in there.items()):
            continue
        there = space.active(there)
        values = {canonical_json([name, value]) for name, value in there.items()}
        if there and (index >= len(spec.examples) or not values <= covered):
            covered |= values
            tried.setdefault(canonical_json(there), there)
    objectives = tuple(goal for goal in search.objectives if goal.name != GPU_HOURS)
    return search.model_copy(
        update={
            "learn_from": tuple(name for name in search.learn_from if name in earlier),
            "objectives": objectives if len(objectives) > 1 else (),
            "sampler": Random() if is_grid else search.sampler,
            "trials": max(1, len(tried) + (0 if is_grid else DRAWN)),
            "budget": None,
            "constraints": (),
            "start_from": tuple(tried.values()),
        }
    )


def _describe_changes(
    spec: SweepSpec, small: SweepSpec, replacements: Replacements
) -> Iterator[str]:
    full, search = spec.search, small.search
    for (name, value), nearest in replacements.nearest.items():
        divided = name == "batch_size" and replacements.divides
        was = f"an eighth, {value}," if divided else value
        yield f"{name}: {was} becomes {format_value(nearest)}"
    for name in sorted(replacements.files):
        yield f"{name} is left out, because it belongs to another corpus"
    for reference in best_references(spec):
        if reference.method not in replacements.trained:
            yield (
                f"{ENCODER} without training replaces the best {reference.method}, which no "
                "stage here trains"
            )
    if spec.evaluate and spec.evaluate.asked.ranking and small.data == "builtin":
        yield (
            "ranking gives no number on built-in sets, where no sentence is in several pairs; name "
            "a data folder by data or CSE_DATA"
        )
    if small.pruner.kind != spec.pruner.kind:
        yield f"pruner {spec.pruner.kind} is left out, because trials are too short to be stopped"
    if full.sampler.kind == "grid" != search.sampler.kind:
        yield "of the points of the grid some are tried, with each value once"
    if search.learn_from != full.learn_from:
        yield "search.learn_from is left out unless it names earlier stages"
    if search.objectives != full.objectives:
        yield f"search.objectives: {GPU_HOURS} is left out, because there is no GPU"
    if full.constraints:
        yield "search.constraints are left out, because so few steps may satisfy none"
    if "leaderboard" in full.start_from:
        yield "start_from: leaderboard is left out, because a rehearsal has its own leaderboard"


def _drop_duplicates(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({canonical_json(value): value for value in values}.values())
