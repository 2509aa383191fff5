"""Read an encoder's configuration, tokenizer and pooling, and check them without its weights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple, TypedDict, Unpack

from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging

from cse_methods.contract import Pooler
from cse_methods.encoders.backbones import Backbone, locate_backbone, own_pooling, resolve_backbone
from cse_methods.encoders.families import (
    encoder_family,
    refuse_half_precision,
    refuse_other_families,
)
from cse_methods.encoders.sentence_transformers_format import (
    Pooling,
    read_options,
    read_text_settings,
    transformer_folder,
)
from cse_methods.encoders.static_files import is_static
from cse_methods.encoders.template import make_template
from cse_methods.errors import BackboneError, UnknownModelError

_log = getLogger(__name__)


class ReadingOptions(TypedDict, total=False):
    """What `load_encoder` takes of how texts are read; what is absent or None is the encoder's."""

    pooler: Pooler | None
    first_layer: int | None
    prompt: str | None
    head: bool | None
    max_length: int | None


class Reading(NamedTuple):
    """Everything except the weights that a sentence's vector depends on."""

    config: Any
    """The model's configuration object of transformers."""
    tokenizer: Any
    pooling: Pooling
    limit: int
    """The most word pieces that are read, special ones included."""
    head: bool
    """Whether the dense layer with tanh that the weights have on [CLS] follows the pooler."""


def check_encoder(name: str, *, precision: str = "fp32", **options: Unpack[ReadingOptions]) -> None:
    """Raise what `load_sentence_encoder` would, as far as that is known without the weights.

    An encoder that must be downloaded first is not checked. Of the head, only weights that are
    safetensors are looked at. `precision` is that of the forward pass in training.
    """
    source = resolve_backbone(name)
    folder = locate_backbone(source)
    if folder and is_static(folder):
        check_static_reading(source, folder, options)
    elif folder:
        reading = read_encoder(source, folder, **options)
        if reading.head:
            files = [*transformer_folder(folder).glob("model*.safetensors")]
            with naming_the_backbone(name, folder):
                stored = [safe_open(file, "pt").keys() for file in files]  # type: ignore[no-untyped-call]
            tensors = [tensor for names in stored for tensor in names]
            if files and not any(tensor.endswith("pooler.dense.weight") for tensor in tensors):
                raise headless(name)
        refuse_half_precision(reading.config, precision, name)


def check_static_reading(source: Backbone, folder: Path, options: ReadingOptions) -> None:
    """Raise BackboneError if word vectors are to be read otherwise than by the mean of a text."""
    pooler = options.get("pooler") or own_pooling(source, folder).pooler
    if options.get("prompt") or options.get("head"):
        raise BackboneError(
            f"backbone {source.name!r} is a table of word vectors, which has no prompt and no "
            f"head; leave {'prompt' if options.get('prompt') else 'head'} out"
        )
    if pooler != "avg":
        raise BackboneError(
            f"backbone {source.name!r} is a table of word vectors, whose mean is all that it "
            f"gives; set pooler: avg instead of {pooler}"
        )


def headless(name: str) -> BackboneError:
    """Make the error for an encoder whose weights have no dense layer on [CLS]."""
    return BackboneError(
        f"backbone {name!r} has no head: its weights have no pooler.dense; leave head out"
    )


def own_dropout(name: str) -> float | None:
    """Return the highest dropout in an encoder's configuration; None if it is absent or static."""
    folder = locate_backbone(resolve_backbone(name))
    if folder is None or is_static(folder):
        return None
    config = _read_config(folder, name)
    return max(float(getattr(config, setting)) for setting in encoder_family(config).dropout)


def own_prompt(name: str) -> str | None:
    """Return the text that an encoder's folder puts before each sentence; None if it is absent."""
    folder = locate_backbone(resolve_backbone(name))
    prompt: str | None = read_options(folder).get("prompt") if folder else None
    return prompt


def read_encoder(source: Backbone, folder: Path, **options: Unpack[ReadingOptions]) -> Reading:
    """Read how the encoder in a folder reads texts; options and errors are `load_encoder`'s."""
    own = own_pooling(source, folder)
    pooler, prompt, head = options.get("pooler"), options.get("prompt"), options.get("head")
    first_layer, max_length = options.get("first_layer"), options.get("max_length")
    head = source.reads_head(pooler) if head is None else head
    pooler = pooler or ("cls" if head else own.pooler)
    if prompt is None and (pooler == "mask") == (own.pooler == "mask"):
        prompt = own.prompt
    first_layer = own.first_layer if first_layer is None else first_layer
    pooling = Pooling(pooler, first_layer, prompt or None, own.include_prompt)
    if pooling.prompt == read_options(folder).get("prompt", ""):
        _log.info(
            "encoder %s puts %r before each sentence, as its folder says", source.name, prompt
        )
    name = source.name
    config, tokenizer = _read_config(folder, name), read_tokenizer(folder, name)
    length, lower_cased = read_text_settings(folder)
    if lower_cased and not lower_cases(tokenizer):
        raise UnknownModelError(
            f"backbone {name!r} wants every text in lower case, and its tokenizer keeps capitals"
        )
    _check_pooling(pooling, config, tokenizer, name)
    positions = config.max_position_embeddings - encoder_family(config).first_position
    if max_length is not None and max_length > positions:
        raise BackboneError(
            f"max_length {max_length} is above the {positions} positions of backbone {name!r}; "
            f"set max_length to {positions} or less"
        )
    limit = min(positions, tokenizer.model_max_length, length or positions)
    return Reading(config, tokenizer, pooling, limit, head)


def read_tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer in a folder; it must be a fast one, with [CLS], [SEP] and padding tokens.

    UnknownModelError if one of these tokens is missing. BackboneError if it cannot be loaded or is
    not a fast one; names the backbone.
    """
    with naming_the_backbone(name, folder):
        place = transformer_folder(folder)
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise BackboneError(
            f"the tokenizer of backbone {name!r} ({type(tokenizer).__name__}) does not give the "
            "places of its pieces; add a tokenizer.json to its folder, or take another backbone"
        )
    if lacking := [one for one in ("cls", "sep", "pad") if not getattr(tokenizer, f"{one}_token")]:
        raise UnknownModelError(
            f"the tokenizer of backbone {name!r} has no {lacking[0]}_token, which stands around "
            "every sentence here; take an encoder whose tokenizer has one"
        )
    return tokenizer


def lower_cases(tokenizer: Any) -> bool:
    """Whether a tokenizer gives the same pieces for `A` and `a`."""
    return bool(tokenizer.tokenize("A") == tokenizer.tokenize("a"))


@contextmanager
def naming_the_backbone(name: str, folder: Path) -> Iterator[None]:
    """Turn the libraries' errors on damaged files into a BackboneError of one sentence."""
    try:
        with quiet():
            yield
    except UnpicklingError as problem:
        raise BackboneError(
            f"backbone {name!r}: the weights in {folder} are a pickle with more than tensors in "
            "it, which is not read because it could run code; save them as safetensors"
        ) from problem
    # Of a pickle's bytes that are none, the unpickler raises whatever it runs into.
    except (
        *(OSError, ValueError, RuntimeError, LookupError, EOFError, ImportError),
        *(AttributeError, TypeError, SafetensorError),
    ) as problem:
        reason = str(problem).strip().partition("\n")[0] or type(problem).__name__
        raise BackboneError(
            f"backbone {name!r} cannot be loaded from {folder}: {reason}"
        ) from problem


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' progress bars and its report of unused tensors."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _read_config(folder: Path, name: str) -> Any:
    with naming_the_backbone(name, folder):
        file = transformer_folder(folder) / "config.json"
        # Checked here: for an unknown family, transformers would ask to run the model's own code.
        refuse_other_families(json.loads(file.read_text("utf-8")), file, name)
        return AutoConfig.from_pretrained(file.parent, trust_remote_code=False)


def _check_pooling(pooling: Pooling, config: Any, tokenizer: Any, name: str) -> None:
    if pooling.pooler == "mask" and pooling.prompt is None:
        raise BackboneError(f"backbone {name!r}: the pooler mask needs a prompt with [MASK]")
    if pooling.pooler == "mask" and tokenizer.mask_token_id is None:
        raise BackboneError(
            f"backbone {name!r} has no mask token for the pooler mask; take another pooler"
        )
    make_template(pooling.prompt, tokenizer, masked=pooling.pooler == "mask")
    if pooling.pooler == "cls" and pooling.prompt and not pooling.include_prompt:
        raise UnknownModelError(
            f"backbone {name!r} leaves its prompt out of the pooling, which the pooler cls cannot"
        )
    if pooling.first_layer > config.num_hidden_layers:
        raise BackboneError(
            f"first_layer {pooling.first_layer} is beyond the {config.num_hidden_layers} layers "
            f"of backbone {name!r}"
        )
