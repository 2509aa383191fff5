"""Read an encoder's configuration, tokenizer and pooling, and check them without its weights."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging

from cse_methods.encoders.backbones import (
    Backbone,
    adapted_folder,
    explain_foreign,
    foreign_pooler,
    locate_backbone,
    own_pooling,
    resolve_backbone,
)
from cse_methods.encoders.families import (
    encoder_family,
    first_position,
    refuse_other_families,
    refuse_other_positions,
)
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.sentence_transformers_format import (
    Pooling,
    read_options,
    read_text_settings,
    transformer_folder,
)
from cse_methods.encoders.template import Template, make_template
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


def own_dropout(name: str) -> float | None:
    """Return the highest dropout in an encoder's configuration; None without such a model."""
    folder = locate_backbone(resolve_backbone(name))
    if folder is None:
        return None
    if explain_foreign(folder):
        return max(read_dropout(folder).values(), default=None)
    config = _read_config(folder, name)
    return max(float(getattr(config, setting)) for setting in encoder_family(config).dropout)


def read_dropout(folder: Path) -> dict[str, float]:
    """Read each dropout of an encoder of any family by its setting; empty without a transformer.

    A classifier's, which touches no vector, is left out.
    """
    transformer = adapted_folder(folder) or transformer_folder(folder)
    if not (transformer / "config.json").is_file():
        return {}
    stored = AutoConfig.from_pretrained(transformer, trust_remote_code=False).to_dict()
    return {
        name: value
        for name, value in stored.items()
        if "dropout" in name and "classifier" not in name and isinstance(value, float)
    }


def asked_pooler(name: str, pooler: Pooler | None) -> Pooler | None:
    """Return the pooler of a configuration, None if it is the encoder's own without a name here.

    The default `cls` then stands for that pooling, such as a decoder's by the last piece.
    """
    folder = locate_backbone(resolve_backbone(name))
    foreign = pooler == "cls" and folder is not None and explain_foreign(folder)
    return None if foreign and folder and foreign_pooler(folder) is None else pooler


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
            f"encoder {name!r} wants every text in lower case, and its tokenizer keeps capitals"
        )
    template = _check_pooling(pooling, config, tokenizer, name)
    positions = config.max_position_embeddings - first_position(config.to_dict())
    if max_length is not None and max_length > positions:
        raise BackboneError(
            f"max_length {max_length} is above the {positions} positions of encoder {name!r}; "
            f"set max_length to {positions} or less"
        )
    limit = min(positions, length or tokenizer.model_max_length)
    if max_length is not None and max_length > limit:
        raise BackboneError(
            f"max_length {max_length} is above the {limit} word pieces that encoder {name!r} "
            f"reads, as its folder says; set max_length to {limit} or less, or raise "
            f"max_seq_length in its sentence_bert_config.json, or else model_max_length in its "
            f"tokenizer_config.json, up to its {positions} positions"
        )
    template.refuse_no_room(max_length or limit)
    refuse_pieces_without_vector(tokenizer, config.vocab_size, name)
    return Reading(config, tokenizer, pooling, limit, head)


def read_tokenizer(folder: Path, name: str) -> Any:
    """Load the tokenizer in a folder; it must be a fast one, with [CLS], [SEP] and padding tokens.

    UnknownModelError if one of these tokens is missing, or it puts others around a sentence.
    BackboneError if it cannot be loaded, is not a fast one or does not do what its tokenizer.json
    says; names the backbone.
    """
    transformer = transformer_folder(folder)
    tokenizer = open_tokenizer(transformer, name)
    if not tokenizer.is_fast:
        raise BackboneError(
            f"the tokenizer of encoder {name!r} ({type(tokenizer).__name__}) does not give the "
            "places of its pieces; add a tokenizer.json to its folder, or take another backbone"
        )
    if lacking := [
        kind for kind in ("cls", "sep", "pad") if not getattr(tokenizer, f"{kind}_token")
    ]:
        raise UnknownModelError(
            f"the tokenizer of encoder {name!r} has no {lacking[0]}_token, which stands around "
            "every sentence here; take an encoder whose tokenizer has one"
        )
    refuse_other_pieces(tokenizer, transformer / "tokenizer.json", name)
    around = [tokenizer.cls_token_id, tokenizer.sep_token_id]
    if tokenizer("")["input_ids"] != around:
        raise UnknownModelError(
            f"the tokenizer of encoder {name!r} puts {tokenizer('')['input_ids']} around a "
            f"sentence, and read here are its cls_token and sep_token, {around}"
        )
    if any(types := tokenizer("a").get("token_type_ids", [])):
        raise UnknownModelError(
            f"the tokenizer of encoder {name!r} gives the pieces of a sentence the types {types}, "
            "and read here is the type 0"
        )
    return tokenizer


def open_tokenizer(folder: Path, name: str) -> Any:
    """Load any tokenizer; BackboneError if that fails or its length is not a number."""
    with naming_the_backbone(name, folder):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if not isinstance(length := tokenizer.model_max_length, int | float) or length < 1:
        raise BackboneError(
            f"the tokenizer of encoder {name!r} has model_max_length {length!r}; write a number "
            f"above 0 into {folder / 'tokenizer_config.json'}"
        )
    return tokenizer


_PROBES = (
    "The nurse, aged 42, doesn't thank Dr. Müller-Łoś!",
    "  two  blanks\tand\nlines ",
    "ÀÉÎÕÜ Ｆｕｌｌ ｗｉｄｔｈ ﬁ ½ … “quoted” it’s",
    "北京 Москва القاهرة १२ 東京タワー 서울 İstanbul ŞIK ß",
    "e\u0301 a\u200bb x\u00a0y 😀 http://a.b/c_d?e=1&f#g @user",
)
"""Texts that show how a tokenizer treats capitals, accents, blanks, widths and scripts."""


def refuse_other_pieces(tokenizer: Any, file: Path, name: str) -> None:
    """Raise BackboneError if a tokenizer does not give the pieces of its tokenizer.json, if any.

    A class of transformers takes only the vocabulary from that file and has rules of its own.
    Compared are texts of all kinds, what the file's own rules name, and every hundredth piece.
    """
    if not file.is_file():
        return
    with naming_the_backbone(name, file.parent):
        stored = Tokenizer.from_file(str(file))
    rules = [json.loads(r.__getstate__()) for r in (stored.normalizer, stored.pre_tokenizer) if r]
    stored.no_truncation()
    stored.no_padding()
    step = max(1, stored.get_vocab_size() // 100)
    pieces = [stored.decode([piece]) for piece in range(0, stored.get_vocab_size(), step)]
    texts = [*_PROBES, *(f"a{text}b" for text in _list_short_texts(rules)), *pieces]
    read = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    for text, ids, expected in zip(
        texts, read, stored.encode_batch(texts, add_special_tokens=False), strict=True
    ):
        if ids != expected.ids:
            ours, theirs = tokenizer.convert_ids_to_tokens(ids), expected.tokens
            raise BackboneError(
                f"the tokenizer of encoder {name!r}, a {type(tokenizer).__name__}, reads {text!r} "
                f"as {' '.join(ours[:8])}, and its tokenizer.json as {' '.join(theirs[:8])}; if "
                'the latter is right, write "tokenizer_class": "PreTrainedTokenizerFast" into its '
                "tokenizer_config.json"
            )


def _list_short_texts(rules: Any) -> list[str]:
    """List the texts in a tokenizer's rules, such as what a normalizer replaces."""
    if isinstance(rules, str):
        return [rules] if len(rules) <= 20 else []
    values = rules.values() if isinstance(rules, dict) else rules
    if not isinstance(rules, dict | list):
        return []
    return [text for value in values for text in _list_short_texts(value)]


def refuse_pieces_without_vector(tokenizer: Any, rows: int, name: str) -> None:
    """Raise BackboneError if a piece of the tokenizer is beyond the model's table of pieces."""
    vocabulary = tokenizer.get_vocab()
    last = max(vocabulary, key=vocabulary.__getitem__)
    if vocabulary[last] >= rows:
        raise BackboneError(
            f"the tokenizer of encoder {name!r} has {vocabulary[last] + 1} pieces and the weights "
            f"{rows} rows; {last!r} (id {vocabulary[last]}) has none; call resize_token_embeddings "
            "on the model and save it again, or remove the piece from the tokenizer"
        )


def lower_cases(tokenizer: Any) -> bool:
    """Whether a tokenizer gives the same pieces for `A` and `a`."""
    return bool(tokenizer.tokenize("A") == tokenizer.tokenize("a"))


def load_model(name: str, folder: Path, **options: Any) -> tuple[Any, set[str]]:
    """Load a model, with the options of transformers, and the names of weights that it has not.

    BackboneError if weights are missing, or of another shape than its configuration says. A layer
    on [CLS] and a decoder may be missing, whose weights no vector depends on.
    """
    from transformers import AutoModel

    transformer, auto = transformer_folder(folder), cast(Any, AutoModel)
    with naming_the_backbone(name, folder):
        model, report = auto.from_pretrained(
            transformer, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
    # A T5 that was saved without its decoder does not call itself an encoder-decoder.
    has_decoder = hasattr(model, "encoder") and hasattr(model, "decoder")
    unread = ("pooler.", "decoder.") if has_decoder else ("pooler.",)
    if missing := [key for key in report["missing_keys"] if not key.startswith(unread)]:
        raise BackboneError(
            f"encoder {name!r}: the weights in {folder} lack {len(missing)} of the model's "
            f"tensors, {min(missing)} the first; is it the file of another model?"
        )
    for tensor, shape, expected in sorted(report["mismatched_keys"]):
        raise BackboneError(
            f"encoder {name!r}: the weight {tensor} has the shape {list(shape)}, and "
            f"{list(expected)} by config.json in {transformer}; is it the file of another model?"
        )
    return model, report["unexpected_keys"]


@contextmanager
def naming_the_backbone(name: str, folder: Path) -> Iterator[None]:
    """Turn the libraries' errors on damaged files into a BackboneError of one sentence."""
    try:
        with quiet():
            yield
    except BackboneError:
        raise
    except UnpicklingError as problem:
        raise BackboneError(
            f"encoder {name!r}: the weights in {folder} are a pickle with more than tensors in "
            "it, which is not read because it could run code; save them as safetensors"
        ) from problem
    except Exception as problem:  # the libraries' errors have no common base
        reason = str(problem).strip().partition("\n")[0] or type(problem).__name__
        raise BackboneError(
            f"encoder {name!r} cannot be loaded from {folder}: {reason}"
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
        stored = dict(json.loads(file.read_text("utf-8")))
        refuse_other_positions(stored, file, name)
        refuse_other_families(stored, file, name)
        return AutoConfig.from_pretrained(file.parent, trust_remote_code=False)


def _check_pooling(pooling: Pooling, config: Any, tokenizer: Any, name: str) -> Template:
    if pooling.pooler == "mask" and pooling.prompt is None:
        raise BackboneError(f"encoder {name!r}: the pooler mask needs a prompt with [MASK]")
    if pooling.pooler == "mask" and tokenizer.mask_token_id is None:
        raise BackboneError(
            f"encoder {name!r} has no mask token for the pooler mask; take another pooler"
        )
    template = make_template(pooling.prompt, tokenizer, masked=pooling.pooler == "mask")
    if pooling.pooler == "cls" and pooling.prompt and not pooling.include_prompt:
        raise UnknownModelError(
            f"encoder {name!r} leaves its prompt out of the pooling, which the pooler cls cannot"
        )
    if pooling.first_layer > config.num_hidden_layers:
        raise BackboneError(
            f"first_layer {pooling.first_layer} is beyond the {config.num_hidden_layers} layers "
            f"of encoder {name!r}"
        )
    return template
