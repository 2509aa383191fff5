"""Models of a sweep file's content, validated and immutable."""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, ValidationInfo, model_validator

from cse_methods.config import MethodConfig
from cse_methods.contract import Method
from cse_methods.data.corpus_spec import Corpora
from cse_methods.data.dev_selection import DevSelection
from cse_methods.files.table_settings import TableSettings
from cse_methods.precision import auto_precision
from cse_methods.registry import get_method
from cse_methods.settings import Settings
from cse_platform.errors import SweepRefusedError
from cse_platform.secrets import mask_text
from cse_platform.sweep.blocks import (
    Evaluate,
    Keep,
    PathOrUrl,
    Resources,
    Search,
    SecretUrls,
    Slug,
    StoreUrls,
    TrialSeeds,
)
from cse_platform.sweep.examples import MOST_DRAWN, Examples, find_examples
from cse_platform.sweep.problems import (
    BLOCKS,
    Problem,
    ProblemsError,
    format_value,
    joined_problems,
    problems_in,
)
from cse_platform.sweep.pruners import NoPruner, Pruner
from cse_platform.sweep.references import (
    BestReference,
    find_best_references,
    replace_best_references,
    with_examples,
    with_placeholders,
)
from cse_platform.sweep.space.dimensions import Choices
from cse_platform.sweep.space.space import Space
from cse_platform.values import iterate_leaves

MOST_REFUSED = 20_000
"""The most points of a grid in a row that a method may refuse."""
LEARNERS = ("tpe", "gp", "auto")
"""Samplers that can learn from trials that they have not proposed."""
REPEATERS = (*LEARNERS, "random")
"""Samplers that tolerate trials that they have not proposed."""

WITHOUT_RULES = "without rules"
"""The context of a validation that leaves `broken_rules` to its caller."""
EXAMINED = {"method", "backbone", "corpus", "fixed", "space"}
"""The keys that examples follow from."""
METHOD_WIDE = ("backbone", "corpus", "data", "dev")
"""Settings of every method that are top-level keys of a sweep and never searched."""


def explain_place(block: str, key: str) -> str:
    """Say how a key is written that belongs into a block."""
    of_table = f", or {{file: …, {key}: …}} of a dev or test set"
    return f"write {block}: {{{key}: …}}" + of_table * (key in TableSettings.model_fields)


class SweepSpec(Settings):
    """One sweep: a method on a backbone, its fixed settings, its space and its search."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        key: explain_place(block, key) for key, block in BLOCKS.items()
    }
    sweep: Slug = Field(description="identity of the sweep")
    method: str = Field(min_length=1)
    backbone: PathOrUrl
    corpus: Corpora
    data: PathOrUrl | None = None
    dev: DevSelection = DevSelection()
    fixed: dict[str, Any] = Field(default={}, description="settings that every trial shares")
    space: Space = Field(default=Space({}), description="settings that are searched")
    search: Search
    pruner: Pruner = NoPruner()
    seeds: TrialSeeds = TrialSeeds()
    resources: Resources = Resources()
    evaluate: Evaluate | None = None
    keep: Keep = Field(default=Keep(), description="what stays on disk when the sweep is complete")
    stores: StoreUrls = StoreUrls()
    storage: PathOrUrl | None = Field(default=None, description="where checkpoints go")
    notify: SecretUrls = Field(
        default=(), exclude=True, description="Apprise URLs that are told what becomes of the sweep"
    )
    tags: tuple[Slug, ...] = Field(default=(), description="words to find its rows by")
    experiment: str = Field(default="cse", min_length=1, description="MLflow experiment")

    @model_validator(mode="before")
    @classmethod
    def _settle_precision(cls, values: Any) -> Any:
        """Replace `precision: auto` by its value where trials run: their keys must contain it."""
        match values:
            case {"fixed": {"precision": "auto", **others}}:
                resources = values.get("resources")
                gpu = isinstance(resources, dict) and resources.get("gpu", 0) != 0
                return {**values, "fixed": {**others, "precision": auto_precision(gpu=gpu)}}
        return values

    @model_validator(mode="after")
    def _check_rules(self, info: ValidationInfo) -> Self:
        if info.context == WITHOUT_RULES:
            return self
        if problems := list(broken_rules(self)):
            raise ProblemsError(problems)
        return self

    @property
    def examples(self) -> list[dict[str, Any]]:
        """Active assignments that cover each choice and bound of the space.

        Choices and bounds that the method accepts beside no others are not covered.
        """
        return self.examined[0]

    @cached_property
    def examined(self) -> Examples:
        """The examples, and the method's reasons against values that it accepts nowhere."""
        method = self.find_method()
        return find_examples(self.space, method, self.settings, seed=self.search.seed)

    def accepts(self, assignment: Mapping[str, Any]) -> bool:
        """Whether no validator of the method refuses the values of an assignment beside each other.

        Anything else that may be wrong, such as an unknown setting, does not count: other values
        would not mend it.
        """
        try:
            get_method(self.method).config.model_validate(self.settings(assignment))
        except ValidationError as error:
            return all(detail["type"] != "value_error" for detail in error.errors())
        return True

    def complete_point(
        self, given: Mapping[str, Any], *, seed: float | str
    ) -> dict[str, Any] | None:
        """Draw the values that a point lacks at random, until the method accepts them all.

        Returns None after `MOST_DRAWN` draws.
        """
        rng = random.Random(seed)
        drawn = (self.space.random_point(given, rng) for _ in range(MOST_DRAWN))
        return next(filter(self.accepts, drawn), None)

    def grid_points(self, given: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield each point of the grid that the method accepts once.

        With `given`, only those that have these values. Raises SweepRefusedError if the method
        refuses `MOST_REFUSED` points in a row.
        """
        refused = 0
        for point in self.space.grid_points(given):
            if self.accepts(point):
                refused = 0
                yield point
            elif (refused := refused + 1) == MOST_REFUSED:
                raise SweepRefusedError(
                    f"sweep {self.sweep!r}: {self.method} refuses {MOST_REFUSED:,} points of the "
                    "grid in a row; narrow the space, or take sampler: random"
                )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the sweep as pydantic does, without what its cached properties remember.

        Examples stay unless a key changes that they follow from.
        """
        copied = super().model_copy(update=update, deep=deep)
        keeps = {"examined"} if EXAMINED.isdisjoint(update or ()) else set()
        for name in copied.__dict__.keys() - type(self).model_fields - keeps:
            del copied.__dict__[name]
        return copied

    @cached_property
    def budget(self) -> int | None:
        """The largest number of trials of the search; a grid has at most one per point.

        None if only time or GPU-hours limit the search, or a grid whose points are not
        counted.
        """
        if self.search.sampler.kind != "grid":
            return self.search.trials
        return self.space.count_grid(most=self.search.trials)

    @property
    def planned(self) -> int | None:
        """The largest number of trials in all, with further seeds.

        None if no number of trials limits the search.
        """
        return None if self.budget is None else self.budget + self.confirming

    @property
    def confirming(self) -> int:
        """The total number of further seeds; an upper bound if configurations race."""
        top = 0 if self.seeds.confirm is None else self.seeds.confirm.top
        confirmed = top if self.budget is None else min(top, self.budget)
        return confirmed * len(self.seeds.further)

    @property
    def confirmed(self) -> int:
        """How many configurations get the same further seeds, if that is the whole search, so that
        no value of it decides which ones do; 0 if values, a pruner or a race decide it.

        A search whose budget was lowered can have tried more than that.
        """
        confirm, budget = self.seeds.confirm, self.budget
        if confirm is None or confirm.race or budget is None or self.pruner.kind != "none":
            return 0
        return confirm.top if self.seeds.further and confirm.top >= budget else 0

    @property
    def data_files(self) -> list[str]:
        """The names of the corpora, and the paths of the lab's own dev and test sets."""
        tests = {} if self.evaluate is None else self.evaluate.files
        sets = (*self.dev.files.values(), *tests.values())
        return [*(corpus.name for corpus in self.corpus), *(p for own in sets for p in own.paths)]

    @property
    def own_test_files(self) -> list[str]:
        """The lab's own files with what is scored in tests, which stay closed to trials."""
        tests = () if self.evaluate is None else self.evaluate.files.values()
        return [path for own in tests for path in own.scored_paths]

    @property
    def kept(self) -> int | None:
        """The number of configurations whose models stay after the sweep; None for all."""
        if self.keep.models == "all":
            return None
        confirmed, evaluated = self.seeds.confirm, self.evaluate
        tops = [block.top for block in (confirmed, evaluated) if block is not None]
        return max([self.keep.models, *tops])

    @property
    def kept_trials(self) -> int | None:
        """The largest number of trials whose models stay; None if all do."""
        if self.kept is None or (self.budget is not None and self.budget <= self.kept):
            return None
        top = 0 if self.seeds.confirm is None else self.seeds.confirm.top
        return self.kept + top * len(self.seeds.further)

    def find_method(self) -> Method:
        """Find the method, with any settings that depend on this sweep's values.

        Raises UnknownMethodError if there is none.
        """
        searched = {n: d.choices for n, d in self.space.items() if isinstance(d, Choices)}
        fixed = {name: (value,) for name, value in with_examples(self.fixed).items()}
        return get_method(self.method).specialise_for(fixed | searched)

    def config(self, assignment: Mapping[str, Any]) -> MethodConfig:
        """Build the method's configuration of one trial; inactive dimensions are left out.

        Unresolved references to a best encoder become placeholders, and examples replace values
        that earlier stages have yet to find. Raises SweepRefusedError if the method refuses the
        combination.
        """
        return self._build_config(self.settings(assignment), assignment)

    def config_of(self, values: Mapping[str, Any]) -> MethodConfig:
        """Build the configuration with these hyperparameters; SweepRefusedError if invalid."""
        return self._build_config(self._shared_settings | dict(values), values)

    def _build_config(self, settings: dict[str, Any], tried: Mapping[str, Any]) -> MethodConfig:
        try:
            return get_method(self.method).config.model_validate(settings)
        except ValidationError as error:
            reason = joined_problems(problems_in(error, settings))
            raise SweepRefusedError(
                f"sweep {self.sweep!r} cannot try {format_value(dict(tried))}: {reason}"
            ) from None

    def settings(self, assignment: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the settings for the method: top-level, fixed and active ones, as JSON values."""
        return {**self._common_settings, **with_placeholders(self.space.select_active(assignment))}

    @cached_property
    def _common_settings(self) -> dict[str, Any]:
        return {**with_placeholders(self._shared_settings | with_examples(self.fixed))}

    @cached_property
    def _shared_settings(self) -> dict[str, Any]:
        return self.model_dump(mode="json", include=set(METHOD_WIDE))


def broken_rules(spec: SweepSpec, *, wrong: Collection[str] = ()) -> Iterator[Problem]:
    """Yield what must hold between keys and does not; keys that are `wrong` are not compared."""
    search, seeds, kind = spec.search, spec.seeds, spec.search.sampler.kind
    if "search" not in wrong:
        for name, dimension in spec.space.items() if kind == "grid" else ():
            try:
                dimension.grid_values()
            except ValueError as error:
                yield Problem(("space", name), str(error))
        names, text = search.learn_from, None
        if spec.sweep in names:
            text = "a sweep always continues with its own trials; leave its name out"
        elif len(set(names)) < len(names):
            text = f"expected distinct sweeps, got {format_value(list(names))}"
        elif names and kind not in LEARNERS:
            kinds = f"{', '.join(LEARNERS[:-1])} or {LEARNERS[-1]}"
            text = f"sampler {kind!r} cannot learn from other sweeps; use {kinds}"
        if text:
            yield Problem(("search", "learn_from"), text)
    gpu_hours = search.budget and search.budget.gpu_hours
    if gpu_hours and spec.resources.gpu == 0 and {"search", "resources"}.isdisjoint(wrong):
        text = "a trial takes no GPU; set resources.gpu, or give a time"
        yield Problem(("search", "budget", "gpu_hours"), text)
    if seeds.repeats and {"search", "seeds"}.isdisjoint(wrong):  # which need something to compare
        if kind not in REPEATERS:
            kinds = f"{', '.join(REPEATERS[:-1])} or {REPEATERS[-1]}"
            text = f"sampler {kind!r} has its own order of trials; use {kinds}"
            yield Problem(("seeds", "repeats"), text)
        elif not seeds.confirm:
            text = (
                "only early leaders would have several seeds and could be the sweep's best; add "
                "'confirm', which gives seeds to the best at the end"
            )
            yield Problem(("seeds", "repeats"), text)
    for path, value in iterate_leaves(spec.model_dump(mode="json", exclude={"stores"})):
        if isinstance(value, str) and mask_text(value) != value:
            text = (
                "it holds a password or a token, which the journal and the stores would show; set "
                "it in the environment"
            )
            yield Problem(path, text)


@dataclass(frozen=True)
class SweepFile:
    """A sweep file: its sweeps, in the order in which they run."""

    path: Path
    stages: tuple[SweepSpec, ...]


def best_references(spec: SweepSpec) -> list[BestReference]:
    """List the references to resolve before the sweep starts, each once, in file order."""
    choices = [d.choices for _, d in spec.space.items() if isinstance(d, Choices)]
    return find_best_references([spec.fixed, choices, spec.search.start_from])


def with_best(spec: SweepSpec, folders: Mapping[BestReference, str]) -> SweepSpec:
    """Replace the references for which `folders` has a folder."""
    if not folders:
        return spec

    def folder(reference: BestReference) -> Any:
        unresolved = {"best": {"method": reference.method, "backbone": reference.backbone}}
        return folders.get(reference, unresolved)

    space = replace_best_references(spec.space.model_dump(mode="json"), folder)
    start_from = replace_best_references(spec.search.start_from, folder)
    changed = {
        "fixed": replace_best_references(spec.fixed, folder),
        "space": Space.model_validate(space),
        "search": spec.search.model_copy(update={"start_from": tuple(start_from)}),
    }
    return spec.model_copy(update=changed)
