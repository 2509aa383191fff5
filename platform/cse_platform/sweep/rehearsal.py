"""Build rehearsals: the stages and evaluations of a sweep on an encoder that takes seconds.

Everything large is replaced, and the replacements are reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.source import data_source
from cse_methods.encoders.backbones import backbone_width
from cse_methods.errors import TrainingError
from cse_methods.task_reference import is_reference
from cse_platform.databases import sqlite_url
from cse_platform.sweep.blocks import Resources, Search, StoreUrls
from cse_platform.sweep.conditions import SIGNS, Condition
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.references import BestReference, replace_best_references
from cse_platform.sweep.samplers import Random
from cse_platform.sweep.space.dimensions import Choices, Dimension
from cse_platform.sweep.space.space import Space
from cse_platform.sweep.spec import SweepSpec, best_references
from cse_platform.values import canonical_json

SMOKE = "smoke"
"""The tag of rehearsals, and the name of their folder inside the runs folder."""
ENCODER = "mini"
"""The encoder that replaces every backbone and teacher."""
POSITIONS = 512
"""The most word pieces that it reads of a text."""
SENTENCES = 1000
"""The most sentences of a corpus that are trained on."""
BRIEF = {"max_steps": 2, "eval_steps": 2, "precision": "fp32"}
"""Settings of every rehearsed training; a step in half precision takes a minute on a CPU."""
WHOLE_GRID = 40
"""The largest grid that is tried whole; of a larger one, every value is tried."""
DRAWN_TRIALS = 2
"""The number of trials that the sampler draws after those of each value."""


class Rehearsal:
    """A small sweep that runs instead of the original, in stores of its own.

    Args:
        original: the sweep.
        earlier: the stages of its file that come before it.
        runs: the folder of the stores.
    """

    def __init__(self, original: SweepSpec, earlier: Sequence[SweepSpec], runs: Path) -> None:
        self.original = original
        configs = [original.config(example) for example in original.examples]
        references = {reference.placeholder for reference in best_references(original)}
        self._trains = issubclass(original.find_method().config, TrainingConfig)
        self._encoders = {name for config in configs for name in config.encoders()} - references
        self._files = {name for config in configs for name in config.files()}  # of another corpus
        self._earlier = {stage.method: stage.sweep for stage in earlier}
        self._fitting: dict[tuple[str, int], int] = {}
        for example in original.examples:
            self._fit_to_width(original.fixed | original.space.select_active(example))
        changes = self._override_keys() | own_stores(runs)
        small = original.model_copy(update=changes)
        self.spec = SweepSpec.model_validate(small.model_dump(mode="json"))

    def replace_point(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of settings by name, each replaced."""
        return {name: self._replace_value(name, value) for name, value in values.items()}

    def describe_changes(self) -> Iterator[str]:
        """Name the keys whose values are replaced, but those of places, one line each."""

        def flatten(spec: SweepSpec) -> dict[str, Any]:
            content = spec.model_dump(mode="json", exclude={"stores", "storage", "tags"})
            for block in ("fixed", "space", "search", "seeds", "resources"):
                inner = content.pop(block)
                content |= {f"{block}.{key}": value for key, value in inner.items()}
            corpora = [corpus.short_name for corpus in spec.corpus]
            return content | {"corpus": corpora, "pruner": spec.pruner.kind}

        old, new = flatten(self.original), flatten(self.spec)
        for key in dict.fromkeys([*old, *new]):
            if (was := old.get(key)) != (becomes := new.get(key)):
                yield f"{key}: {format_value(was)} becomes {format_value(becomes)}"

    def _replace_value(self, name: str, value: Any) -> Any:
        if self._trains and name in BRIEF:
            return BRIEF[name]
        if name == "head" and not self._trains:  # of the encoder, which `mini` has not
            return None
        if name == "max_length":
            return min(value, POSITIONS)

        def replace_reference(reference: BestReference) -> Any:
            if reference.method not in self._earlier:
                return ENCODER
            return {"best": {"method": reference.method, "backbone": ENCODER}}

        def replace_names(value: Any) -> Any:
            if isinstance(value, Mapping):
                of_encoder = ("head", "target_modules")  # `mini` has no head and other layers
                return {k: replace_names(v) for k, v in value.items() if k not in of_encoder}
            if isinstance(value, (list, tuple)):
                return [replace_names(inner) for inner in value]
            if type(value) is int:
                return self._fitting.get((name, value), value)
            if not isinstance(value, str):
                return value
            return None if value in self._files else ENCODER if value in self._encoders else value

        return replace_names(replace_best_references(value, replace_reference))

    def _fit_to_width(self, values: Mapping[str, Any]) -> None:
        """Find the whole numbers that must be smaller for vectors of `mini`, and by how much.

        It is one number, or all that are too large in a list.
        """
        settings = self.original.settings({}) | self.replace_point(values) | {"backbone": ENCODER}
        config, width = self.original.find_method().config, backbone_width(ENCODER) or 0

        def is_trainable(**change: Any) -> bool:
            try:
                config.model_validate(settings | change).check_width(width)
            except (ValidationError, TrainingError):
                return False
            return True

        if is_trainable():
            return
        for name in (name for name in values if isinstance(settings[name], (list, tuple))):
            large = sorted(
                (n for n in settings[name] if type(n) is int and n > width), reverse=True
            )
            fitted = {n: width - index for index, n in enumerate(large)}
            if large and is_trainable(**{name: [fitted.get(n, n) for n in settings[name]]}):
                self._fitting |= {(name, n): smaller for n, smaller in fitted.items()}
                return
        for name in (name for name in values if type(settings[name]) is int):
            smaller = range(settings[name] - 1, 0, -1)
            if (fitting := next((n for n in smaller if is_trainable(**{name: n})), 0)) > 0:
                self._fitting[name, values[name]] = fitting
                return

    def _override_keys(self) -> dict[str, Any]:
        """Make the keys of a sweep that replace what is large in it."""
        spec, corpora = self.original, []
        for corpus in spec.corpus:  # a table with columns keeps its own first rows
            first = min(corpus.first or SENTENCES, SENTENCES)
            kept = corpus.model_dump(include={"split_at", "loss", "weight", "prompt"})
            builtin = CorpusSpec(name="builtin", first=first, **kept)
            own = corpus.model_copy(update={"first": first})
            corpora.append(own if corpus.columns or corpus.label is not None else builtin)
        evaluate, seeds = spec.evaluate, spec.seeds
        if evaluate is not None:  # of tasks of mteb there is no small form
            tasks = tuple(word for word in evaluate.tasks if not is_reference(word))
            evaluate = evaluate.model_copy(update={"tasks": tasks}) if tasks else None
        if seeds.confirm is not None and seeds.further:
            confirm = seeds.confirm.model_copy(update={"seeds": seeds.further[:1]})
            seeds = seeds.model_copy(update={"confirm": confirm})
        brief = {name: None for name in BRIEF if self._trains and name not in spec.space}
        space = Space({n: self._replace_dimension(n, d) for n, d in spec.space.items()})
        return {
            "backbone": ENCODER,
            "corpus": tuple(dict.fromkeys(corpora)),
            "data": spec.data if isinstance(data_source(spec.data), Path) else "builtin",
            "evaluate": evaluate,
            "fixed": self.replace_point(brief | spec.fixed),
            "space": space,
            "search": self._build_search(space),
            "pruner": NoPruner(),
            "seeds": seeds,
            "resources": Resources(fresh_process=spec.resources.fresh_process),
            "notify": (),
            "tags": tuple(dict.fromkeys((*spec.tags, SMOKE))),
        }

    def _replace_dimension(self, name: str, dimension: Dimension) -> Dimension:
        """Replace a dimension's values; a range whose bounds change becomes a choice of the two."""
        conditions = []
        for condition in dimension.when:
            if condition.sign not in SIGNS:  # which compare numbers
                values = (self._replace_value(condition.name, value) for value in condition.values)
                condition = Condition(condition.name, condition.sign, _drop_duplicates(values))
            conditions.append(condition)
        when, ends = tuple(conditions), [self._replace_value(name, end) for end in dimension.ends]
        if isinstance(dimension, Choices) or tuple(ends) != dimension.ends:
            return Choices(choices=_drop_duplicates(ends), when=when)
        return dimension.model_copy(update={"when": when})

    def _build_search(self, space: Space) -> Search:
        """Build a search that tries every value of the replaced space."""
        search = self.original.search
        is_grid = search.sampler.kind == "grid"
        if is_grid and 0 < (space.count_grid(most=WHOLE_GRID + 1) or 0) <= WHOLE_GRID:
            return Search(sampler=search.sampler, seed=search.seed)
        tried, covered = list[dict[str, Any]](), set[str]()
        for example in self.original.examples:
            point = space.select_active(self.replace_point(example))
            values = {canonical_json(item) for item in point.items()}
            if not values <= covered:
                covered |= values
                tried.append(point)
        earlier = self._earlier.values()
        return search.model_copy(
            update={
                "learn_from": tuple(name for name in search.learn_from if name in earlier),
                "sampler": Random() if is_grid else search.sampler,
                "trials": max(1, len(tried) + (0 if is_grid else DRAWN_TRIALS)),
                "budget": None,
                "start_from": tuple(tried),
            }
        )


def rehearse(stages: Sequence[SweepSpec], runs: Path) -> list[Rehearsal]:
    """Build the rehearsals of a file's sweeps, which have their own stores in the folder `runs`.

    Raises DataError if `data` or CSE_DATA is not a data folder.
    """
    return [Rehearsal(spec, stages[:index], runs) for index, spec in enumerate(stages)]


def own_stores(runs: Path) -> dict[str, Any]:
    """Make the keys that put a sweep's stores into one folder, whatever the environment says."""
    files = {"leaderboard": "leaderboard.db", "search": "search.db", "mlflow": "mlflow.db"}
    urls = {name: sqlite_url(runs.absolute() / file) for name, file in files.items()}
    return {"stores": StoreUrls(**urls), "storage": None}


def _drop_duplicates(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({canonical_json(value): value for value in values}.values())
