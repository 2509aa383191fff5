"""The settings of the method `st`."""

from collections.abc import Container, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, create_model, model_validator

from cse_methods.config import Above, Conditions, Holding, TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.errors import SettingError, TrainingError, nearest_hint
from cse_methods.precision import auto_precision
from cse_methods.sentence_transformers_trainer.library import identify_library
from cse_methods.sentence_transformers_trainer.losses import (
    LOSSES,
    PREFIX,
    LossName,
    loss_fields,
    losses_with,
    read_labels,
    settings_of,
)
from cse_methods.sentence_transformers_trainer.trial_process import ask_for_steps
from cse_methods.settings import Settings, setting

_GUIDED: tuple[LossName, ...] = ("gist", "cached_gist")
_TAUGHT: tuple[LossName, ...] = ("mse", "embed_distill")
LibraryPooler = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


class Lora(Settings):
    """Low-rank matrices that are trained in place of an encoder's weights."""

    rank: int = setting(8, "r, the rank of each pair of matrices", ge=1)
    alpha: int = setting(16, "the product of a pair is multiplied by alpha / rank", ge=1)
    dropout: float = setting(0.0, "of what enters a pair of matrices", ge=0, lt=1)
    target_modules: str | tuple[str, ...] = setting(
        "all-linear", "the layers that get a pair: all-linear, or the ends of their names"
    )


class LibraryConfig(TrainingConfig):
    """The settings of a method that sentence-transformers' trainer trains."""

    by_library: ClassVar[bool] = True
    max_length: int = setting(
        32, "most word pieces of a training text, special ones included", ge=4
    )
    pooler: LibraryPooler | None = setting(  # type: ignore[assignment]  # the library's words
        None, "how the vectors of tokens become one; null: as the backbone's folder says"
    )
    precision: Annotated[
        Literal["fp32", "bf16"],
        BeforeValidator(lambda value: auto_precision() if value == "auto" else value),
    ] = setting(
        "fp32",
        "of the forward pass; `auto` is bf16 if processor or GPU have units for it, else fp32",
    )
    optimizer: Literal["adamw"] = setting("adamw", "the library's AdamW")
    learning_rate_schedule: Literal["linear", "constant"] = setting(
        "linear", "after the warm-up; linear falls to 0"
    )
    gradient_accumulation: Literal[1] = setting(
        1, "one batch a step; cached losses save memory by loss_mini_batch_size"
    )
    head: Literal[False] = setting(False, "none: the library trains what it saves")
    test_pooler: None = setting(None, "none: the library pools in one way")
    first_layer: Literal[1] = setting(1, "none: the library lacks the pooler that reads it")

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Derive nothing from the pooler, as there is no head."""
        return {**super().dependent_defaults(values), "head": False}

    def ingredients(self) -> dict[str, str]:
        """Return the versions and sources of the libraries."""
        return {**super().ingredients(), **identify_library()}


class StSettings(LibraryConfig):
    """What every loss has; `StConfig` has the settings of the losses too."""

    tried_together: ClassVar[tuple[str, ...]] = ("loss", "matryoshka")
    conditions: ClassVar[Conditions] = {
        "guide": {"loss": _GUIDED},
        "teacher": {"loss": _TAUGHT},
        **{name: {"loss": losses_with(name.removeprefix(PREFIX))} for name in loss_fields()},
    }

    loss: LossName = setting("multiple_negatives", "of sentence-transformers")
    guide: str | None = setting(
        None, "the encoder whose cosines tell gist and cached_gist which negatives are none"
    )
    teacher: str | None = setting(
        None, "the encoder whose vectors mse and embed_distill teach", min_length=1
    )
    matryoshka: tuple[Annotated[int, Field(ge=1)], ...] | None = setting(
        None, "widths at which the loss is computed and dev sets are scored, the full one first"
    )
    matryoshka_dims_per_step: int | None = setting(
        None, "so many of the widths, drawn anew at each step, have a loss; null: all", ge=1
    )
    lora: Lora | None = setting(None, "trains low-rank matrices; the kept model has them merged in")
    no_duplicates: bool = setting(
        False, "whether a batch holds no text twice, for losses whose negatives are in the batch"
    )

    @property
    def losses(self) -> tuple[LossName, ...]:
        """The loss of each corpus, in order."""
        return tuple(corpus.loss or self.loss for corpus in self.corpus)

    @property
    def dev_widths(self) -> tuple[int, ...]:
        return self.matryoshka or ()

    def loss_settings(self, loss: LossName) -> dict[str, Any]:
        """Return the settings of a loss that are not left to the library, without the prefix."""
        given = {name: getattr(self, PREFIX + name) for name in settings_of(loss)}
        return {name: value for name, value in given.items() if value is not None}

    def encoders(self) -> tuple[str, ...]:
        others = (self.guide, self.teacher)
        return (*super().encoders(), *(name for name in others if name is not None))

    @classmethod
    def try_steps(cls, configs: Sequence[Self]) -> list[str | None]:
        """Take a step of each on the packaged encoder, in a process of its own."""
        return ask_for_steps([config.model_dump(mode="json") for config in configs])

    def ingredients(self) -> dict[str, str]:
        """Return the libraries, and how each corpus is trained on."""
        sets = [
            f"{loss} {corpus.weight} {corpus.prompt}"
            for loss, corpus in zip(self.losses, self.corpus, strict=True)
        ]
        return {**super().ingredients(), "sets": ", ".join(sets)}

    def check_width(self, width: int) -> None:
        if self.matryoshka is not None and max(self.matryoshka) > width:
            raise TrainingError(
                f"matryoshka has {max(self.matryoshka)}, above the {width} coordinates of backbone "
                f"{self.backbone}; take widths up to {width}"
            )

    def check_encoders(self) -> None:
        """Raise TrainingError if the backbone lacks a layer that `lora` names."""
        targets = None if self.lora is None else self.lora.target_modules
        if targets is None or isinstance(targets, str):
            return
        from cse_methods.encoders.encoder_check import list_layers

        ends = [f".{layer}" for layer in list_layers(self.backbone)]
        for target in targets if ends else ():
            if not any(end.endswith(f".{target}") for end in ends):
                known = dict.fromkeys(end.rpartition(".")[2] for end in ends)
                raise TrainingError(
                    f"lora.target_modules has {target!r}, and no layer of backbone {self.backbone} "
                    f"has a name that ends so; there are {', '.join(known)}, and all-linear for all"
                )

    def check_corpus(self, corpus: CorpusSpec) -> None:
        loss = corpus.loss or self.loss
        if loss not in LOSSES:
            raise SettingError(
                "corpus",
                f"{corpus.short_name} has no loss {loss!r} to train.{nearest_hint(loss, LOSSES)} "
                f"There are: {', '.join(LOSSES)}",
            )
        rows = LOSSES[loss]
        texts, labelled = len(corpus.columns) or 1, rows.label not in (None, "vector")
        fits = rows.fewest <= texts <= (rows.most or texts) or (texts == 1 and rows.takes_views)
        if not fits or labelled != (corpus.label is not None):
            texts_given = f"{texts} text{'s' * (texts > 1)} a row"
            label_given = "no label" if corpus.label is None else f"label {corpus.label!r}"
            raise SettingError(
                "corpus",
                f"{corpus.short_name} has {texts_given} and {label_given}, but loss {loss} needs "
                f"{rows.describe()}; name them, columns: […], label: …, or take another loss",
            )

    def check_data(self, corpus: Corpus) -> None:
        for part, loss in zip(corpus.parts or (corpus,), self.losses, strict=False):
            read_labels(part, loss)
            if len(part.sentences) < self.batch_size:
                raise TrainingError(
                    f"batch_size {self.batch_size} is more than the {len(part.sentences)} rows of "
                    f"corpus {part.name}; take a smaller batch or a larger corpus"
                )

    def _find_inactive(self) -> dict[str, tuple[str, tuple[Any, ...] | Above | Holding]]:
        """Leave out what the loss of a corpus takes, if `loss` does not."""
        inactive = super()._find_inactive().items()
        return {
            name: (by, losses) for name, (by, losses) in inactive if not self._trains_any_of(losses)
        }

    def _trains_any_of(self, losses: Container[object]) -> bool:
        return any(loss in losses for loss in self.losses)

    @model_validator(mode="after")
    def _refuse_what_losses_lack(self) -> Self:
        weights = [corpus.weight for corpus in self.corpus]
        if None in weights and any(weights):
            raise SettingError("corpus", "either every corpus has a weight, or none")
        for name, losses in (("guide", _GUIDED), ("teacher", _TAUGHT)):
            if self._trains_any_of(losses) and getattr(self, name) is None:
                raise SettingError(
                    "loss", f"{' and '.join(losses)} read another encoder; name it, {name}: …"
                )
        drawn, widths = self.matryoshka_dims_per_step, self.matryoshka or ()
        if drawn is not None and drawn >= len(widths):
            raise SettingError(
                "matryoshka_dims_per_step",
                f"{drawn} of the {len(widths)} widths of matryoshka; take fewer, or leave it out",
            )
        grouped = any(LOSSES[loss].by_label for loss in self.losses)
        if grouped and (self.batch_size < 4 or self.batch_size % 2):
            raise SettingError(
                "batch_size",
                f"{self.batch_size} texts cannot be pairs of several classes; take an even number "
                "from 4 on",
            )
        return self


_fields: Any = loss_fields()
StConfig: type[StSettings] = create_model("StConfig", __base__=StSettings, **_fields)
"""With the settings of all losses, `loss_NAME`."""
