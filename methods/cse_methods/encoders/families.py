"""The supported families of encoders, and how they differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_methods.errors import BackboneError, UnknownModelError


@dataclass(frozen=True)
class Family:
    """The properties of a family's models; the defaults are BERT's."""

    first_position: int | None = 0
    """The row in the position table of the first word piece; None: that after `pad_token_id`."""
    rotary: bool = False
    """Whether its models have no table of positions, whatever the configuration calls them."""
    dropout: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    """The names of the settings for dropout of hidden vectors and of attention."""
    pooling_layer: bool = True
    """Whether its models have their own pooling layer, which must be left out."""
    sdpa: bool = True
    """Whether its models support the attention kernel `sdpa`; otherwise they use `eager`."""

    packed: bool = True
    """Whether its models can read rows without padding, with the kernel `sdpa`. ModernBERT cannot:
    some of its layers see only nearby pieces, which they count along the whole row."""

    half_precision: bool = True
    """Whether its models run in bf16 and fp16."""

    bert_layers: bool = False
    """Whether its modules are BERT's, by name and order."""

    def kernel(self, attention: str) -> str:
        """Return the attention kernel to load a model with, if the user asks for `attention`."""
        if attention != "sdpa" or not self.sdpa:
            return "eager"
        return "packed" if self.packed else "sdpa"

    @property
    def options(self) -> dict[str, bool]:
        return {"add_pooling_layer": False} if self.pooling_layer else {}


_ROBERTA = Family(first_position=None, bert_layers=True)
_DEBERTA = Family(pooling_layer=False, sdpa=False)

FAMILIES: Mapping[str, Family] = {
    "albert": Family(),
    "bert": Family(bert_layers=True),
    "camembert": _ROBERTA,
    # It fills masked attention with the lowest float32, which is out of range in half precision.
    "deberta": Family(pooling_layer=False, sdpa=False, half_precision=False),
    "deberta-v2": _DEBERTA,
    "distilbert": Family(dropout=("dropout", "attention_dropout"), pooling_layer=False),
    "electra": Family(pooling_layer=False),
    "ernie": Family(bert_layers=True),
    "gte": Family(rotary=True),
    "modernbert": Family(
        rotary=True,
        dropout=("embedding_dropout", "mlp_dropout", "attention_dropout"),
        pooling_layer=False,
        packed=False,
    ),
    "mpnet": Family(first_position=2, sdpa=False),
    "nomic_bert": Family(rotary=True),
    "roberta": _ROBERTA,
    "roberta-prelayernorm": Family(first_position=None),
    "xlm-roberta": _ROBERTA,
    "xlm-roberta-xl": Family(first_position=None),
}
"""By `model_type`. DeBERTa v3 is `deberta-v2`; multilingual BERT and most GTE models are `bert`."""


def refuse_other_families(stored: Mapping[str, Any], file: Path, name: str) -> None:
    """Raise UnknownModelError unless this `config.json` is of a supported encoder.

    Raises BackboneError if it does not say of which family it is.
    """
    kind, family = stored.get("model_type"), FAMILIES.get(stored.get("model_type") or "")
    if family and not stored.get("is_decoder"):
        return
    if kind is None and "auto_map" not in stored:
        raise BackboneError(
            f'encoder {name!r}: {file} names no family; add "model_type" to it, such as '
            f'"model_type": "bert", one of {", ".join(FAMILIES)}'
        )
    reason = f"is of the family {kind!r}"
    if stored.get("is_decoder") and kind in FAMILIES:
        reason = f"is a decoder of the family {kind!r}"
    elif stored.get("is_encoder_decoder"):
        reason += ", which decodes as well as encodes"
    elif "auto_map" in stored:
        reason += ", whose code comes with the model and is not run here"
    raise UnknownModelError(
        f"encoder {name!r} {reason}; encoders of these families are read: {', '.join(FAMILIES)}"
    )


def refuse_other_positions(stored: Mapping[str, Any], file: Path, name: str) -> None:
    """Raise BackboneError for positions that transformers would read as absolute ones."""
    positions = stored.get("position_embedding_type") or "absolute"
    family = FAMILIES.get(stored.get("model_type") or "")
    if family and positions != "absolute" and not family.rotary:
        raise BackboneError(
            f"encoder {name!r}: {file} asks for position_embedding_type {positions!r}, which is "
            "not read here; take an encoder with absolute positions"
        )


def refuse_half_precision(config: Any, precision: str, name: str) -> None:
    """Raise BackboneError if a model with this configuration does not support the precision."""
    if precision != "fp32" and not encoder_family(config).half_precision:
        raise BackboneError(
            f"encoder {name!r} is of the family {config.model_type!r}, which does not run in "
            f"{precision}; set precision: fp32"
        )


def encoder_family(config: Any) -> Family:
    """Return the family of a supported model's configuration."""
    return FAMILIES[config.model_type]


def first_position(stored: Mapping[str, Any]) -> int:
    """Return the row in the position table of the first word piece, as a `config.json` says.

    BackboneError if the positions follow a padding that it does not name.
    """
    first = FAMILIES.get(stored.get("model_type", ""), Family()).first_position
    if first is not None:
        return first
    padding = stored.get("pad_token_id", 1)  # the default of all these families
    if not isinstance(padding, int):
        raise BackboneError(
            f"config.json has pad_token_id {padding!r}, and the positions of the family "
            f"{stored['model_type']!r} begin after it; write the tokenizer's there"
        )
    return padding + 1
