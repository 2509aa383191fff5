"""The sentence-transformers format: the files of a saved encoder that say how it pools.

Beside the model and tokenizer files there are modules.json, sentence_bert_config.json,
config_sentence_transformers.json, 1_Pooling/config.json and a folder for each layer before or after
the pooler, such as 2_Dense; a modules.json with anything else is refused. Older releases put the
model, the tokenizer and sentence_bert_config.json into 0_Transformer. sentence-transformers
supports the poolers `cls` and `avg`. For our other poolers the file names a mode that it does not
know, so that it refuses to load the encoder rather than giving different vectors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from cse_methods.encoders.poolers import Pooler
from cse_methods.errors import BackboneError, UnknownModelError
from cse_methods.files.text import explain_pointer

_POOLING_FOLDER = "1_Pooling"
_FLAGS: dict[str, Pooler] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "avg"}
_NAMES: dict[str, Pooler] = {"mean": "avg", **{pooler: pooler for pooler in get_args(Pooler)}}
_LIBRARY_MODES = ("max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
OWN_KIND = "cse_methods."
"""The prefix of the names of layers that sentence-transformers does not have."""
_OLD_TRANSFORMERS = {"ALBERT", "BERT", "CamemBERT", "DistilBERT", "RoBERTa", "XLMRoBERTa"}
"""What the first releases called the module that is a Transformer now."""
_LAYER_KINDS = {"Dense", "Normalize"}
"""The layers of sentence-transformers that are supported here, after the pooler."""
LIBRARY_KINDS = {"Transformer", "Pooling", *_LAYER_KINDS}
"""The modules of sentence-transformers that are supported here; others are our own layers."""
_MODULES_FILE = "modules.json"
_TEXTS_FILE = "sentence_bert_config.json"
_TEXTS_FILES = [_TEXTS_FILE] + [  # older releases named it after the family
    f"sentence_{family}_config.json"
    for family in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
]
_TEXTS_READ: dict[str, Any] = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
} | {
    f"{kind}_{given}": {"add_pooling_layer": False} if kind == "model" else None
    for kind in ("model", "config", "tokenizer", "processor", "processing")
    for given in ("args", "kwargs")
}
"""What else that file may say of a transformer, with the only value that is read here."""
_OPTIONS_FILE = "config_sentence_transformers.json"


class Module(NamedTuple):
    """One step from a sentence to its vector, by its name in sentence-transformers."""

    kind: str
    """`Transformer`, `Pooling`, `Dense`, `Normalize`, …; the full name of a model's own code."""
    path: str
    """Its folder inside the model's."""


@dataclass(frozen=True)
class Pooling:
    """How the vectors of word pieces are reduced to one."""

    pooler: Pooler
    first_layer: int = 1
    """The layer that is `first` in avg_first_last: 0 the embeddings, 1 the first layer."""
    prompt: str | None = None
    """The text before a sentence, such as "query: "; for `mask` the words around it, with {} for it
    and [MASK] where it is pooled."""
    include_prompt: bool = True
    """Whether the text before a sentence is pooled too."""

    @property
    def key(self) -> dict[str, Any]:
        """Its part of a key; `include_prompt` is only set by a folder, whose hash has it."""
        return {name: value for name, value in asdict(self).items() if name != "include_prompt"}


def read_pooling(folder: Path) -> Pooling | None:
    """Read the pooling with which a saved encoder was trained; None if the folder does not say.

    UnknownModelError if its pooling or one of its modules is not supported here. BackboneError if
    the file cannot be read.
    """
    modules, file, options = read_modules(folder), _find_pooling_file(folder), read_options(folder)
    if not modules and not file.is_file():
        return None
    mode, stored = read_pooler(folder), _read_json(file)
    if mode is None:
        raise UnknownModelError(
            f"{file} pools in a way that is not among {', '.join(get_args(Pooler))}; name one "
            "of these as the pooler of a copy of the folder without it and modules.json"
        )
    first_layer = stored.get("first_layer", 1)
    if not isinstance(first_layer, int):
        raise BackboneError(f"{file} is not a pooling configuration: first_layer {first_layer!r}")
    prompt = stored.get("prompt") if mode == "mask" else options.get("prompt")
    return Pooling(mode, first_layer, prompt, options.get("include_prompt", True))


def read_pooler(folder: Path) -> Pooler | None:
    """Read the pooler of a saved encoder; None if it has another or says none. Errors as above."""
    file = _find_pooling_file(folder)
    if not file.is_file() and not list_modules(folder):
        return None
    try:
        stored = json.loads(file.read_text("utf-8"))
        chosen = [key for key, on in stored.items() if key.startswith("pooling_mode_") and on]
        modes = [_FLAGS.get(name) for name in chosen] or ["avg"]  # the library's default
        if "pooling_mode" in stored:  # written by newer releases, as a text or a list
            named = stored["pooling_mode"]
            named = [named] if isinstance(named, str) else list(named)
            if not named or not {*named} <= {*_NAMES, *_LIBRARY_MODES}:
                known = ", ".join((*_NAMES, *_LIBRARY_MODES))
                raise ValueError(f"pooling_mode {stored['pooling_mode']!r}; known are {known}")
            modes = [_NAMES.get(name) for name in named]
    except (OSError, ValueError, AttributeError, TypeError) as problem:
        raise BackboneError(f"{file} is not a pooling configuration: {problem}") from problem
    return modes[0] if len(modes) == 1 else None


def read_modules(folder: Path) -> list[Module]:
    """Read the list of a saved encoder's modules, in order; empty if the folder has no list.

    Returns:
        A Transformer, a Pooling, then any number of Dense and Normalize. Our own kinds of layers
        can precede and follow the Pooling as well.

    UnknownModelError if it has other modules, or in another order or place. BackboneError if
    modules.json cannot be read.
    """
    modules = list_modules(folder)
    if not modules and not (folder / _MODULES_FILE).is_file():
        return []
    before, after = split_modules(modules)
    known = (
        bool(modules)
        and modules[0].kind == "Transformer"
        and len(modules) > 1 + len(before)
        and all(module.kind.startswith(OWN_KIND) for module in before)
        and all(m.kind in _LAYER_KINDS or m.kind.startswith(OWN_KIND) for m in after)
    )
    if not known:
        listed = ", ".join(f"{kind} in {path}" if path != "." else kind for kind, path in modules)
        raise UnknownModelError(
            f"{folder} has modules that are not read here: {listed}; expected are Transformer, "
            "then Pooling, then Dense and Normalize"
        )
    return modules


def list_modules(folder: Path) -> list[Module]:
    """List a saved encoder's modules, whatever they are; errors are those of `read_modules`."""
    file = folder / _MODULES_FILE
    if not file.is_file():
        return []
    modules = []
    try:
        for entry in json.loads(file.read_text("utf-8")):
            kind = entry["type"]  # code that comes with a model keeps its full name
            if kind.startswith("sentence_transformers."):
                kind = kind.rpartition(".")[2]
            kind = "Transformer" if kind in _OLD_TRANSFORMERS else kind
            path = Path(entry["path"])
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"the path {entry['path']!r} leads out of the folder")
            modules.append(Module(kind, path.as_posix()))
        if not modules:
            raise ValueError("it is empty")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        reason = explain_pointer(file) or f"{file} is not a list of modules: {problem}"
        raise BackboneError(reason) from problem
    return modules


def transformer_folder(folder: Path) -> Path:
    """Return the folder of an encoder's transformer: its own, or one below it, as 0_Transformer."""
    modules = list_modules(folder)
    return folder / modules[0].path if modules else folder


def split_modules(modules: Sequence[Module]) -> tuple[list[Module], list[Module]]:
    """Return the modules between the transformer and the pooler, and those after the pooler."""
    before = list(takewhile(lambda module: module.kind != "Pooling", modules[1:]))
    return before, list(modules[2 + len(before) :])


def read_text_settings(folder: Path) -> tuple[int | None, bool]:
    """Read how texts are changed before a saved encoder reads them.

    Returns:
        The length, special pieces included, to which they are truncated, None if not given; and
        whether they are lower-cased before the tokenizer reads them.
    """
    file, stored = _read_texts_file(folder)
    length = stored.get("max_seq_length")
    if length is not None and not (isinstance(length, int) and length > 0):
        raise BackboneError(
            f"{file} has max_seq_length {length!r}; expected is a whole number above 0, or null"
        )
    return length, bool(stored.get("do_lower_case"))


def _read_texts_file(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Read the first file about a transformer's texts that says something, as the library does."""
    files = [transformer_folder(folder) / name for name in _TEXTS_FILES]
    return next(((file, stored) for file in files if (stored := _read_json(file))), (files[0], {}))


def read_options(folder: Path) -> dict[str, Any]:
    """Read what a saved encoder does to texts and vectors beside its modules.

    Returns:
        Those that have an effect: `prompt`, the text before every sentence; `include_prompt`, False
        if that is not pooled; `truncate_dim`, how many coordinates of a vector are kept.

    BackboneError if a file of settings cannot be read.
    """
    if not (folder / _MODULES_FILE).is_file():
        return {}
    stored = _read_json(folder / _OPTIONS_FILE)
    prompts, kept = stored.get("prompts") or {}, stored.get("truncate_dim")
    texts = isinstance(prompts, dict) and all(
        isinstance(text, str | None) for text in prompts.values()
    )
    if not texts or not (kept is None or (isinstance(kept, int) and kept > 0)):
        raise BackboneError(
            f"{folder / _OPTIONS_FILE} has prompts {prompts!r} and truncate_dim {kept!r}; expected "
            "are texts by name, and a whole number above 0"
        )
    chosen = stored.get("default_prompt_name")
    known = {"query": "", "document": ""} | prompts  # these two are there without being written
    if chosen is not None and chosen not in list(known):  # it may be of any type
        raise BackboneError(
            f"{folder / _OPTIONS_FILE}: default_prompt_name {chosen!r} is not among its prompts, "
            f"{', '.join(known)}; add that prompt, or write null"
        )
    given = {"prompt": known.get(chosen), "truncate_dim": kept}
    options = {name: value for name, value in given.items() if value}
    pooled = _read_json(_find_pooling_file(folder)).get("include_prompt", True)
    return options if pooled else {**options, "include_prompt": False}


PromptKind = Literal["query", "document"]
"""The sides of a search, whose texts can have prompts of their own."""
_SIDES: dict[PromptKind, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
"""The names of their prompts, as the library looks for them."""


def read_side_prompts(folder: Path) -> dict[PromptKind, str]:
    """Read the texts before queries and before documents; empty ones are left out.

    BackboneError as `read_options`.
    """
    read_options(folder)
    prompts = _read_json(folder / _OPTIONS_FILE).get("prompts") or {}
    found = {
        side: next((prompts[name] for name in names if prompts.get(name)), None)
        for side, names in _SIDES.items()
    }
    return {side: prompt for side, prompt in found.items() if prompt}


def refuse_other_settings(folder: Path) -> None:
    """Raise UnknownModelError for a saved encoder with settings of its modules of another make.

    These are a transformer with arguments or another task, and a dense layer or a normalisation
    that does more than these words say.
    """
    embedding = "sentence_embedding"
    of_layer = {"module_input_name": embedding, "module_output_name": embedding}
    if not (modules := list_modules(folder)):
        return
    layers = [folder / one.path / "config.json" for one in modules if one.kind in _LAYER_KINDS]
    read: list[tuple[Path, dict[str, Any], dict[str, Any]]] = [
        (*_read_texts_file(folder), _TEXTS_READ),
        (file := folder / _OPTIONS_FILE, _read_json(file), {"model_type": "SentenceTransformer"}),
        *((file, _read_json(file), of_layer | {"use_residual": False}) for file in layers),
    ]
    for file, stored, known in read:
        for setting, ours in known.items():
            if (asked := stored.get(setting) or ours) and asked != ours:
                raise UnknownModelError(f"{file} has {setting} {asked!r}, which is not read here")


def write_format(
    folder: Path,
    pooling: Pooling,
    *,
    width: int,
    max_length: int,
    model_options: Mapping[str, Any],
    token_layers: Sequence[Module] = (),
    post_pooling: Sequence[Module] = (),
) -> None:
    """Add to a folder of model and tokenizer files those that make it a sentence encoder.

    `width` is that of the pooler's vectors. `max_length` includes special word pieces.
    `model_options` are those with which transformers loads the model.
    """
    pooler = f"{1 + len(token_layers)}_Pooling"
    steps = [Module("Transformer", ""), *token_layers, Module("Pooling", pooler), *post_pooling]
    modules = [
        {
            "idx": n,
            "name": str(n),
            "path": path,
            "type": kind if kind.startswith(OWN_KIND) else f"sentence_transformers.models.{kind}",
        }
        for n, (kind, path) in enumerate(steps)
    ]
    write_json(folder / _MODULES_FILE, modules)
    texts: dict[str, Any] = {"max_seq_length": max_length}
    if model_options:  # by the name that older releases of the library read, too
        texts["model_args"] = dict(model_options)
    write_json(folder / _TEXTS_FILE, texts)
    options: dict[str, Any] = {"similarity_fn_name": "cosine"}
    if pooling.prompt and pooling.pooler != "mask":
        options |= {"prompts": {"default": pooling.prompt}, "default_prompt_name": "default"}
    write_json(folder / _OPTIONS_FILE, options)
    stored: dict[str, Any] = {"word_embedding_dimension": width}
    if not pooling.include_prompt:
        stored["include_prompt"] = False
    if pooling.pooler in _FLAGS.values():  # every release reads these flags
        stored |= {flag: name == pooling.pooler for flag, name in _FLAGS.items()}
    else:
        stored["pooling_mode"] = pooling.pooler
    if pooling.pooler == "avg_first_last":
        stored["first_layer"] = pooling.first_layer
    if pooling.pooler == "mask":
        stored["prompt"] = pooling.prompt
    write_json(folder / pooler / "config.json", stored)


def write_option(folder: Path, name: str, value: Any) -> None:
    """Add one of the options that `read_options` reads to a saved encoder."""
    write_json(folder / _OPTIONS_FILE, _read_json(folder / _OPTIONS_FILE) | {name: value})


def _find_pooling_file(folder: Path) -> Path:
    """Return the file with the settings of a saved encoder's pooler."""
    modules = list_modules(folder)
    pooler = next((module.path for module in modules if module.kind == "Pooling"), _POOLING_FOLDER)
    return folder / pooler / "config.json"


def _read_json(file: Path) -> dict[str, Any]:
    """Read a file of settings; empty if it does not exist, BackboneError if it is invalid."""
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as problem:
        reason = explain_pointer(file) or f"{file} cannot be read: {problem}"
        raise BackboneError(reason) from problem


def write_json(file: Path, content: Any) -> None:
    """Write settings as JSON, into a folder that need not exist."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
