"""Methods whose loss builds on that of another method: their settings and their objective.

The setting `base` names the other method. Its own settings then become settings too, named
`base_NAME`, and its defaults for settings shared by all methods apply. Settings of the upper method
inherit from `WithBase`, its objective from `ObjectiveOnBase`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError, create_model, field_validator, model_validator
from torch import Tensor

from cse_methods.config import Conditions, TrainingConfig, TwoViewConfig
from cse_methods.contract import Method
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.encoder import Encoder
from cse_methods.errors import SettingError, TrainingError, UnknownMethodError
from cse_methods.registry import available_methods, get_method
from cse_methods.settings import setting
from cse_methods.training.objective import Objective, TwoViewObjective, TwoViews
from cse_methods.training.optimizers import ParameterGroup
from cse_methods.training.student import Batch, Student, StudentProtocol
from cse_methods.training.supervised import SupervisedObjective

PREFIX = "base_"
"""Prefix of a base's settings, and of those parts of its loss whose name is taken."""


class WithBase(TwoViewConfig):
    """The settings of a method that can build on another one.

    With a base, `model_validate` returns an instance of a subclass that has the base's settings
    too.
    """

    own_bases: ClassVar[tuple[str, ...]] = ()
    """Values of `base` whose settings are among the method's own."""
    encodes_views: ClassVar[bool] = False
    """Whether the method encodes the base's views itself, so that the base must not have its own
    way.
    """

    base: str | None = setting(
        None, "another method whose views and loss this one builds on, with settings `base_NAME`"
    )

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        base = obj.get("base") if isinstance(obj, Mapping) else None
        specialised = cls.specialise_for({"base": (base,)}) if isinstance(base, str) else cls
        return super(WithBase, specialised).model_validate(obj, **options)

    @classmethod
    def specialise_for(cls, possible: Mapping[str, Sequence[Any]]) -> type[Self]:
        """Return the settings class for these possible bases; unknown bases are ignored."""
        plain = _find_plain_class(cls)
        known = []
        for name in possible.get("base", ()):
            with suppress(ValueError):
                if isinstance(name, str) and name not in plain.own_bases:
                    known.append(find_base(name, plain).name)
        kind: type[Self] = _add_settings_of(plain, tuple(dict.fromkeys(known))) if known else plain
        return kind

    @field_validator("base")
    @classmethod
    def _refuse_what_is_no_base(cls, name: str | None) -> str | None:
        if name is not None and name not in cls.own_bases:
            find_base(name, _find_plain_class(cls))
            if not issubclass(cls, _Based):
                raise ValueError("settings with a base are made by `model_validate`")
        return name


class _Based(WithBase):
    @property
    def of_base(self) -> TrainingConfig:
        """The base's settings, including those of all methods.

        SettingError if the base refuses them.
        """
        base, shared = get_method(str(self.base)).config, TwoViewConfig.model_fields
        names = {name: name if name in shared else PREFIX + name for name in base.model_fields}
        values = {name: getattr(self, here) for name, here in names.items()}
        try:
            return base.model_validate(values)  # type: ignore[return-value]  # it trains, as `find_base` asks
        except ValidationError as error:
            detail = error.errors()[0]
            cause = detail.get("ctx", {}).get("error")
            blamed = (cause.setting,) if isinstance(cause, SettingError) else detail["loc"]
            raise SettingError(
                names.get(str(blamed[0]), str(blamed[0])) if blamed else "base",
                f"the base {self.base} says: {cause or detail['msg']}",
            ) from None

    @model_validator(mode="after")
    def _refuse_what_the_base_refuses(self) -> Self:
        _ = self.of_base
        return self

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the method's defaults and, if there is only one base, that base's."""
        defaults = super().dependent_defaults(values)
        if len(cls.bases) > 1:
            return defaults
        shared = TwoViewConfig.model_fields
        given = {
            name.removeprefix(PREFIX): value
            for name, value in values.items()
            if name in shared or name.startswith(PREFIX)
        }
        of_base = get_method(cls.bases[0]).config.dependent_defaults(given)
        return defaults | {
            name if name in shared else PREFIX + name: value for name, value in of_base.items()
        }

    def test_prompt(self) -> str | None:
        return self.of_base.test_prompt()

    def encoders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().encoders(), *self.of_base.encoders())))

    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().files(), *self.of_base.files())))

    def ingredients(self) -> dict[str, str]:
        return super().ingredients() | self.of_base.ingredients()

    def check_width(self, width: int) -> None:
        super().check_width(width)
        self.of_base.check_width(width)


def _find_plain_class(config: type[WithBase]) -> Any:
    return next(kind for kind in config.__mro__ if not issubclass(kind, _Based))


@lru_cache
def _add_settings_of(plain: type[WithBase], bases: tuple[str, ...]) -> Any:
    """Create a class with the settings of these bases; the settings of each depend on `base`.

    If two bases have a setting of the same name, the field of the first one is used.
    """
    fields: dict[str, Any] = {}
    conditions: dict[str, dict[str, Any]] = {}
    shared = TwoViewConfig.model_fields
    for base in bases:
        config = get_method(base).config
        own = config.model_fields.keys() - shared
        for name, field in config.model_fields.items():
            if name in own:
                fields.setdefault(PREFIX + name, (field.annotation, copy(field)))
                condition = {
                    PREFIX + other if other in own else other: allowed
                    for other, allowed in config.conditions.get(name, {}).items()
                }
                known = conditions.setdefault(PREFIX + name, {"base": (), **condition})
                known["base"] += (base,)
            elif field.default != plain.model_fields[name].default == shared[name].default:
                fields.setdefault(name, (field.annotation, copy(field)))
    return create_model(
        f"{plain.__name__}On{'Or'.join(get_method(base).config.__name__ for base in bases)}",
        __base__=(_Based, plain),
        __module__=plain.__module__,
        bases=(ClassVar[tuple[str, ...]], bases),
        conditions=(ClassVar[Conditions], {**plain.conditions, **conditions}),
        **fields,
    )


def find_base(name: str, upper: type[WithBase]) -> Method:
    """Return a method as the base of the method with the settings `upper`.

    ValueError if it cannot be a base; explains why, and lists the methods that can.
    """
    try:
        method = get_method(name)
    except UnknownMethodError as error:
        raise ValueError(str(error)) from None
    if problem := _explain_no_base(method, upper):
        bases = []
        for other in available_methods():
            with suppress(UnknownMethodError):
                bases += [] if _explain_no_base(get_method(other), upper) else [other]
        raise ValueError(f"{name} is no base here: {problem}; take one of {', '.join(bases)}")
    return method


def _explain_no_base(method: Method, upper: type[WithBase]) -> str | None:
    if method.config is upper:
        return "no method stands on itself"
    if issubclass(method.config, WithBase):
        return "it stands on a base of its own"
    # The two-view objectives that it builds, by its function's return annotation.
    built: Any = None
    with suppress(Exception):  # an annotation of another package that cannot be evaluated
        built = get_type_hints(method.build).get("return")
    all_kinds = get_args(built) or (built,)
    kinds = [
        kind
        for kind in all_kinds
        if isinstance(kind, type)
        and issubclass(kind, TwoViewObjective)
        and not issubclass(kind, SupervisedObjective)
    ]
    if not kinds:
        return "its objective does not hand over two views of each sentence"
    if upper.encodes_views and all(kind.encode is not TwoViewObjective.encode for kind in kinds):
        return (
            "it encodes its views in a way of its own, and this method cuts sentences into parts "
            "that it encodes itself"
        )
    return None


def build_base(config: WithBase, corpus: Corpus, student: Student) -> TwoViewObjective:
    """Build the objective of the base.

    TrainingError if the base builds an objective without two views.
    """
    assert isinstance(config, _Based)
    build: Callable[..., Any] = find_base(str(config.base), _find_plain_class(type(config))).build  # type: ignore[assignment]  # a base has one
    objective = build(config.of_base, corpus, student)
    if not isinstance(objective, TwoViewObjective):
        raise TrainingError(
            f"base: {config.base} builds a {type(objective).__name__}, and a TwoViewObjective "
            "is what another method can stand on"
        )
    return objective


class ObjectiveOnBase(Objective):
    """An objective that adds its own parts to those of another one, its base.

    What the base trains, reports and evaluates is used as if it were trained alone.
    """

    def __init__(self, base: TwoViewObjective) -> None:
        super().__init__()
        self.base = base

    @staticmethod
    def add_parts(of_base: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Join the parts of both; parts of the base whose name is taken get the prefix `base_`."""
        renamed = {PREFIX + name if name in own else name: part for name, part in of_base.items()}
        return renamed | dict(own)

    def parameter_groups(self, student: Student) -> Sequence[ParameterGroup]:
        return self.base.parameter_groups(student)

    def metrics(self) -> dict[str, float]:
        return self.base.metrics()

    def evaluation_encoder(self, student: Student) -> Encoder:
        return self.base.evaluation_encoder(student)

    def evaluation_encoders(self, student: Student) -> Sequence[Encoder]:
        return self.base.evaluation_encoders(student)


class TwoViewsOfBase(ObjectiveOnBase, TwoViewObjective):
    """An objective with another loss on the two views of its base; subclasses define `losses`."""

    def batch_rows(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.base.batch_rows(drawn)

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        return self.base.views(student, batch)

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        return self.base.encode(student, views)

    def update_state(self, student: StudentProtocol, views: TwoViews) -> None:
        self.base.update_state(student, views)
