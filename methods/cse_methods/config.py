"""The settings of methods: the base classes, and which settings have an effect beside others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import Corpora, CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.encoders.poolers import Pooler
from cse_methods.entry_points import blame
from cse_methods.errors import BrokenMethodError, CseError, SettingError, TrainingError
from cse_methods.precision import Arithmetic, Precision, auto_precision
from cse_methods.reports import real_number
from cse_methods.setting_text import yaml_text
from cse_methods.settings import Positive, Settings, setting

OptimizerName = Literal["adamw", "adamw_without_bias_correction", "bert_adamw", "rmsprop"]
LearningRateSchedule = (
    Literal["linear", "constant"] | dict[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=0)]]
)
"""How the learning rate falls; as a mapping, the factor once more than so many steps are done."""


@dataclass(frozen=True)
class Above:
    """The numbers above a bound, as a condition: `{"rate": {"weight": Above(0)}}`."""

    bound: float

    def __contains__(self, value: object) -> bool:
        number = real_number(value)
        return number is not None and number > self.bound

    def __str__(self) -> str:
        return f"> {self.bound:g}"


@dataclass(frozen=True)
class Holding:
    """The lists with an entry, at any depth, as a condition: `{"rate": {"cuts": Holding("a")}}`."""

    entry: Any

    def __contains__(self, value: object) -> bool:
        inside = value if isinstance(value, (list, tuple)) else ()
        return any(part == self.entry or part in self for part in inside)

    def __str__(self) -> str:
        return f"with {self.entry}"


Conditions = Mapping[str, Mapping[str, tuple[Any, ...] | Above | Holding]]
"""By setting: it has an effect only while each named other setting has one of these values."""


class MethodConfig(Settings):
    """The settings that every method has, trained or not; a method adds its own."""

    conditions: ClassVar[Conditions] = {}
    bases: ClassVar[tuple[str, ...]] = ()
    """Other methods whose settings stand among these, and whose code the numbers follow from."""
    by_library: ClassVar[bool] = False
    """Whether sentence-transformers reads the backbone, which can then be of any kind."""
    tried_together: ClassVar[tuple[str, ...]] = ()
    """The settings of which only a step shows what goes together; see `try_steps`."""

    backbone: str = setting(
        ..., "short name, hub id or folder of the pre-trained encoder", min_length=1
    )
    corpus: Corpora = setting(..., "training sentences; several corpora are joined")
    data: str | None = setting(
        None, "`builtin`, `hub` or a folder in the SentEval layout; else CSE_DATA, else hub"
    )
    dev: DevSelection = setting(DevSelection(), "the dev sets and their roles")

    max_length: int = setting(
        32, "most word pieces of a training sentence, special ones included", ge=4, le=512
    )
    pooler: Pooler = setting("cls", "how the vectors of tokens become one vector")
    first_layer: int = setting(
        1, "the first layer of avg_first_last: 0 the embeddings, 1 the first hidden layer", ge=0
    )
    prompt: str | None = setting(
        None, "the text before each sentence, such as `query: `; null is the backbone's own"
    )
    attention: Literal["sdpa", "eager"] = setting("sdpa", "attention kernel")

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Check the settings, as in pydantic.

        Raises:
            ValidationError: names every setting that is refused.
            BrokenMethodError: if the method's own checks raise anything but a ValueError.
        """
        try:
            return super().model_validate(obj, **options)
        except (ValidationError, CseError):
            raise
        except Exception as problem:
            raise BrokenMethodError(
                f"the settings {cls.__name__} cannot be checked: {blame(problem, cls.__module__)}"
            ) from problem

    @classmethod
    def specialise_for(cls, possible: Mapping[str, Sequence[Any]]) -> type[Self]:
        """Return the class of settings where some have these possible values; here always this one.

        Values are not checked: what none can be brings no settings.
        """
        del possible
        return cls

    @model_validator(mode="before")
    @classmethod
    def _fill_dependent_defaults(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        filled = cls.dependent_defaults(values).items()
        return values | {name: value for name, value in filled if values.get(name) is None}

    @model_validator(mode="after")
    def _refuse_what_does_not_fit(self) -> Self:
        for name, (other, allowed) in self._find_inactive().items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                if isinstance(allowed, Holding):
                    way = f"take {other} {allowed}"
                else:
                    need = f"'{allowed}'"
                    if not isinstance(allowed, Above):
                        need = yaml_text(allowed[0] if len(allowed) == 1 else allowed)
                    way = f"search it `when: {{{other}: {need}}}`"
                raise SettingError(
                    name,
                    f"{name}={value} has no effect with {other}: {getattr(self, other)}; "
                    f"leave it out, or {way}",
                )
        if self.pooler == "mask" and self.test_prompt() == self.prompt:
            raise SettingError(
                "pooler",
                "the pooler mask needs prompts with [MASK], which this method does not have; "
                "take cls, avg, avg_top2 or avg_first_last",
            )
        for corpus in self.corpus:
            self.check_corpus(corpus)
        return self

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Derive defaults from the other settings, as a file gives them, not yet checked."""
        del values
        return {}

    def _find_inactive(self) -> dict[str, tuple[str, tuple[Any, ...] | Above | Holding]]:
        """Find settings without effect, each with the setting to blame and its needed values."""
        return {
            name: (other, allowed)
            for name, condition in self.conditions.items()
            for other, allowed in condition.items()
            if getattr(self, other) not in allowed
        }

    def encoders(self) -> tuple[str, ...]:
        """Return every pre-trained encoder this configuration reads, the backbone first."""
        return (self.backbone,)

    @property
    def arithmetic(self) -> Arithmetic:
        """What an encoder's products are computed in, in training and at dev points."""
        return "fp32"

    @property
    def dev_widths(self) -> tuple[int, ...]:
        """The numbers of first coordinates by which dev sets are scored, beside all of them."""
        return ()

    def columns_taken(self) -> int:
        """Return how many columns of a corpus a batch has: 1 is the sentences alone."""
        return 1

    def check_corpus(self, corpus: CorpusSpec) -> None:
        """Raise SettingError if this method does not train on a corpus's columns and labels."""
        given, taken, name = len(corpus.columns) or 1, self.columns_taken(), corpus.short_name
        if given != taken and taken > 1:
            has = f"{given} columns" if given > 1 else "single sentences"
            raise SettingError(
                "corpus",
                f"{name} has {has}, and {taken} columns are needed; name them, columns: […]",
            )
        if given != taken:
            raise SettingError(
                "corpus",
                f"{name} has {given} columns, and this method trains on single sentences here; "
                "name one, column: …, or train simcse with supervision: pairs or triples",
            )
        for key in ("label", "loss", "weight", "prompt"):
            if (value := getattr(corpus, key)) is not None:
                raise SettingError(
                    "corpus",
                    f"{name} has {key}: {value}, which this method does not read; leave it out, "
                    "or train st, which has the losses of sentence-transformers",
                )

    def check_data(self, corpus: Corpus) -> None:
        """Raise CseError if the rows of the corpus cannot be trained on."""
        del corpus

    def test_prompt(self) -> str | None:
        """Return the text before a sentence at test time; for the pooler `mask` that around it."""
        return self.prompt

    def files(self) -> tuple[str, ...]:
        """Return every file that this configuration names and reads, other than the corpora."""
        return ()

    def check_width(self, width: int) -> None:
        """Raise TrainingError if this cannot be trained on vectors of so many coordinates."""
        del width

    def check_encoders(self) -> None:
        """Raise CseError if its encoders, as far as they are here, do not fit each other."""

    @classmethod
    def try_steps(cls, configs: Sequence[Self]) -> list[str | None]:
        """Find out for each configuration what stands against a step of it; None if nothing.

        It is asked once for a sweep, with all combinations of `tried_together`.
        """
        return [None] * len(configs)

    def ingredients(self) -> dict[str, str]:
        """Return what the numbers depend on beside settings, encoders, data and files, by name.

        Raises:
            CseError: if something that this configuration needs is not installed.
        """
        return {}

    def hyperparameters(self) -> dict[str, Any]:
        """Return what a search may turn: all but encoder, corpus, data and dev sets; JSON values.

        Settings without effect are left out: those whose condition is not met, and those that are
        None. A None that was chosen over another default stays, because the values would not give
        this configuration again without it.
        """
        left_out = {"backbone", "corpus", "data", "dev", *self._find_inactive()}
        chosen: dict[str, Any] = {
            name: None
            for name, setting in type(self).model_fields.items()
            if name not in left_out and getattr(self, name) is None and setting.default is not None
        }
        return chosen | self.model_dump(mode="json", exclude=left_out, exclude_none=True)


class TrainingConfig(MethodConfig):
    """The settings of every method that trains."""

    head_poolers: ClassVar[tuple[Pooler, ...]] = ("cls", "mask")
    """The poolers that a head follows by default."""

    epochs: float = setting(1, "passes over the corpus", gt=0)
    max_steps: int | None = setting(None, "optimiser steps; where given, it overrides epochs", ge=1)
    batch_size: int = setting(64, "sentences a step; each is a negative of the others", ge=2)
    gradient_accumulation: int = setting(
        1, "chunks a batch is encoded in to save memory; negatives stay the whole batch", ge=1
    )
    optimizer: OptimizerName = setting(
        "adamw", "bert_adamw: no bias correction, decay before the step; rmsprop: Keras' constants"
    )
    optimizer_epsilon: float | None = setting(
        None, "added to the root of mean squares; null: adamw 1e-8, rmsprop 1e-7, others 1e-6", gt=0
    )
    learning_rate: float = setting(3e-5, "the highest of the trial", gt=0)
    learning_rate_schedule: LearningRateSchedule = setting(
        "linear", 'linear falls to 0; {"500": 0.8} multiplies by 0.8 after more than 500 steps'
    )
    warmup_ratio: float = setting(0.0, "share of the steps that warm up", ge=0, lt=1)
    weight_decay: float = setting(
        0.0, "of all but biases and normalisation layers; of rmsprop an L2 penalty", ge=0
    )
    max_grad_norm: float | None = setting(
        1.0, "all gradients together are clipped to this L2 norm; null does not clip", gt=0
    )
    eval_steps: int = setting(125, "optimiser steps between dev points", ge=1)
    patience: int | None = setting(
        None, "dev points in a row without a better one that end a trial; null trains on", ge=1
    )
    test_pooler: Pooler | None = setting(None, "the pooler at dev and test; null: that of training")
    precision: Annotated[
        Precision, BeforeValidator(lambda value: auto_precision() if value == "auto" else value)
    ] = setting(
        "fp32",
        "of the forward pass; `auto` is bf16 if processor or GPU have units for it, else fp32",
    )
    tf32: bool | None = setting(
        None, "whether a GPU multiplies in TF32 where precision is fp32; null: it does"
    )
    deterministic: bool = setting(
        False, "repeatable but slower kernels of a GPU, if there are any; CPUs always repeat"
    )
    head: bool = setting(
        True, "dense + tanh after the pooler, in training only; null: as the paper has it"
    )
    dropout: float | None = setting(
        None, "of hidden vectors and attention; null keeps the backbone's", ge=0, lt=1
    )

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Derive whether there is a head, which follows the pooler."""
        pooler = values.get("pooler") or cls.model_fields["pooler"].default
        return {**super().dependent_defaults(values), "head": pooler in cls.head_poolers}

    @model_validator(mode="after")
    def _refuse_a_prompt_at_one_end(self) -> Self:
        if self.test_pooler is not None and "mask" in {self.pooler, self.test_pooler}:
            raise SettingError(
                "test_pooler",
                f"test_pooler={self.test_pooler} with pooler={self.pooler}: a prompt is read at "
                "its mask in training and at test alike; leave test_pooler out",
            )
        return self

    @property
    def arithmetic(self) -> Arithmetic:
        return "tf32" if self.precision == "fp32" and self.tf32 is not False else self.precision


class TwoViewConfig(TrainingConfig):
    """The settings of every method that trains on two views of each sentence."""

    loss_of_prefixes: ClassVar[bool] = True
    """Whether the loss can read the first coordinates of vectors alone."""

    spread_mean_weight: float = setting(
        0.0,
        "weight of the squared mean cosine of different sentences in a view",
        ge=0,
        exclude_if=lambda weight: not weight,
    )
    spread_second_weight: float = setting(
        0.0,
        "weight of the mean squared cosine of different sentences in a view, as far as it is above "
        "that of random directions",
        ge=0,
        exclude_if=lambda weight: not weight,
    )
    matryoshka_dims: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = setting(
        None,
        "numbers of first coordinates that the loss reads instead of whole vectors, and by which "
        "dev sets are scored too; the full width is trained if it is one of them",
    )
    matryoshka_weights: tuple[Annotated[float, Field(ge=0)], ...] | None = setting(
        None, "one weight for each of matryoshka_dims; null: 1 each"
    )

    @model_validator(mode="after")
    def _refuse_dims_and_weights_that_do_not_fit(self) -> Self:
        dims, weights = self.matryoshka_dims or (), self.matryoshka_weights
        if dims and not self.loss_of_prefixes:
            raise SettingError(
                "matryoshka_dims",
                "this method's loss has layers that read whole vectors; leave matryoshka_dims out",
            )
        if weights is not None and len(weights) != len(dims):
            raise SettingError(
                "matryoshka_weights", f"{len(weights)} weights for {len(dims)} matryoshka_dims"
            )
        return self

    @property
    def modifies_loss(self) -> bool:
        """Whether any of these settings changes the loss."""
        weights = (self.spread_mean_weight, self.spread_second_weight)
        return any(weights) or self.matryoshka_dims is not None

    @property
    def dev_widths(self) -> tuple[int, ...]:
        return self.matryoshka_dims or ()

    def check_width(self, width: int) -> None:
        """Raise TrainingError if embeddings have fewer coordinates than are to be read."""
        if max(self.dev_widths, default=0) > width:
            raise TrainingError(
                f"matryoshka_dims has {max(self.dev_widths)}, above the {width} coordinates of "
                f"backbone {self.backbone}; take numbers up to {width}"
            )
