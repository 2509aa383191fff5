"""The families of encoders that are read here, and what sets them apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cse_methods.errors import BackboneError, UnknownModelError


@dataclass(frozen=True)
class Family:
    """What a family's models have in their own way; the defaults are BERT's."""

    first_position: int = 0
    """The row of the position table that the first word piece has."""
    dropout: tuple[str, ...] = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    """The settings of the dropout of hidden vectors and attention."""
    pooling_layer: bool = True
    """Whether its models have a pooling layer of their own, which has to be left out."""
    sdpa: bool = True
    """Whether its models have the attention kernel `sdpa`; else they take `eager`."""

    packed: bool = True
    """Whether its models can read rows without padding, with the kernel `sdpa`: in ModernBERT some
    layers see near pieces only, and count through the whole row."""

    half_precision: bool = True
    """Whether its models run in bf16 and fp16."""

    bert_layers: bool = False
    """Whether its modules are BERT's, by name and order."""

    def kernel(self, attention: str) -> str:
        """The attention kernel that its models are loaded with, where `attention` is asked for."""
        if attention != "sdpa" or not self.sdpa:
            return "eager"
        return "packed" if self.packed else "sdpa"

    @property
    def options(self) -> dict[str, bool]:
        """What its models are made with."""
        return {"add_pooling_layer": False} if self.pooling_layer else {}


_ROBERTA = Family(first_position=2, bert_layers=True)
_DEBERTA = Family(pooling_layer=False, sdpa=False)

FAMILIES: Mapping[str, Family] = {
    "albert": Family(),
    "bert": Family(bert_layers=True),
    "camembert": _ROBERTA,
    # Its attention fills what is masked with the least float32, which half precision does not have.
    "deberta": Family(pooling_layer=False, sdpa=False, half_precision=False),
    "deberta-v2": _DEBERTA,
    "distilbert": Family(dropout=("dropout", "attention_dropout"), pooling_layer=False),
    "electra": Family(pooling_layer=False),
    "ernie": Family(bert_layers=True),
    "gte": Family(),
    "modernbert": Family(
        dropout=("embedding_dropout", "mlp_dropout", "attention_dropout"),
        pooling_layer=False,
        packed=False,
    ),
    "mpnet": Family(first_position=2, sdpa=False),
    "nomic_bert": Family(),
    "roberta": _ROBERTA,
    "roberta-prelayernorm": Family(first_position=2),
    "xlm-roberta": _ROBERTA,
    "xlm-roberta-xl": Family(first_position=2),
}
"""By `model_type`. DeBERTa v3 is of `deberta-v2`, multilingual BERT and most GTE are of `bert`."""


def refuse_other_families(stored: Mapping[str, Any], name: str) -> None:
    """Raise UnknownModelError unless a model with this `config.json` is an encoder read here."""
    kind = stored.get("model_type")
    if kind in FAMILIES and not stored.get("is_decoder"):
        return
    reason = f"is of the family {kind!r}"
    if stored.get("is_decoder") and kind in FAMILIES:
        reason = f"is a decoder of the family {kind!r}"
    elif stored.get("is_encoder_decoder"):
        reason += ", which decodes as well as encodes"
    elif "auto_map" in stored:
        reason += ", whose code comes with the model and is not run here"
    raise UnknownModelError(
        f"backbone {name!r} {reason}; encoders of these families are read: {', '.join(FAMILIES)}"
    )


def refuse_half_precision(config: Any, precision: str, name: str) -> None:
    """Raise BackboneError if a model with this configuration does not run in that precision."""
    if precision != "fp32" and not encoder_family(config).half_precision:
        raise BackboneError(
            f"backbone {name!r} is of the family {config.model_type!r}, which does not run in "
            f"{precision}; set precision: fp32"
        )


def encoder_family(config: Any) -> Family:
    """The family of a model's configuration, which is one that is read here."""
    return FAMILIES[config.model_type]
