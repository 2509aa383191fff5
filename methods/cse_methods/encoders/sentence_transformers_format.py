"""The sentence-transformers format: the files of a saved encoder that say how it pools.

Beside the model and tokenizer files lie modules.json, sentence_bert_config.json,
config_sentence_transformers.json, 1_Pooling/config.json and a folder for each layer before or after
the pooler, such as 2_Dense; a modules.json that lists anything else is refused. `cls` and `avg` are
pooling modes that sentence-transformers has itself. For the other poolers the configuration names
a mode that it does not know and refuses to load, rather than giving other vectors than ours.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, get_args

from cse_methods.contract import Pooler
from cse_methods.errors import BackboneError, UnknownModelError

_POOLING_FOLDER = "1_Pooling"
_FLAGS: dict[str, Pooler] = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "avg"}
_NAMES: dict[str, Pooler] = {"mean": "avg", **{pooler: pooler for pooler in get_args(Pooler)}}
OWN_KIND = "cse_methods."
"""What the names of layers begin with that sentence-transformers does not have."""
WORD_EMBEDDINGS = "WordEmbeddings"
"""The first module of an encoder that has a table of words in place of a transformer."""
_TOKEN_KINDS, _LAYER_KINDS = {"CNN"}, {"Dense", "Normalize"}
"""What it has itself and is read here, before and after the pooler."""
_MODULES_FILE = "modules.json"
_TEXTS_FILE = "sentence_bert_config.json"
_TEXTS_FILES = "sentence_*_config.json"  # older releases named it after the family
_OPTIONS_FILE = "config_sentence_transformers.json"


class Module(NamedTuple):
    """One step from a sentence to its vector, as sentence-transformers names it."""

    kind: str
    """`Transformer`, `Pooling`, `Dense`, `Normalize`, …; the whole name for a model's own code."""
    path: str
    """Its folder below the model's."""


_TRANSFORMER = Module("Transformer", "")


@dataclass(frozen=True)
class Pooling:
    """How token vectors become one."""

    pooler: Pooler
    first_layer: int = 1
    """What `first` is in avg_first_last: 0 the embeddings, 1 the first layer."""
    prompt: str | None = None
    """For `mask`: the words around a sentence, with {} for it and [MASK] where its vector is."""

    @property
    def reads_one_piece(self) -> bool:
        """Whether the vector is that of one piece of the last layer."""
        return self.pooler in ("cls", "mask")


def read_pooling(folder: Path) -> Pooling | None:
    """The pooling that a saved encoder was trained with; None where the folder does not say.

    Raises:
        UnknownModelError: if it is a pooling that we do not have, or other modules than ours.
        BackboneError: if the file cannot be read.
    """
    modules = read_modules(folder)
    pooler = next((module.path for module in modules if module.kind == "Pooling"), _POOLING_FOLDER)
    file = folder / pooler / "config.json"
    if not modules and not file.is_file():
        return None
    try:
        stored = json.loads(file.read_text("utf-8"))
        mode = _pooler(stored)
        first_layer, prompt = int(stored.get("first_layer", 1)), stored.get("prompt")
    except (OSError, ValueError, AttributeError, TypeError) as problem:
        raise BackboneError(f"{file} is not a pooling configuration: {problem}") from problem
    if mode is None:
        raise UnknownModelError(
            f"{file} pools in a way that is not among {', '.join(get_args(Pooler))}; name one "
            "of these as the pooler of a copy of the folder without it and modules.json"
        )
    return Pooling(mode, first_layer, prompt)


def read_modules(folder: Path) -> list[Module]:
    """The modules of a saved encoder, in order; none where the folder names none.

    Returns:
        A Transformer in the folder itself, a Pooling, then any number of Dense and Normalize.
        A CNN and layers of our own kinds may stand between the first two, the latter at the end.
        In place of the Transformer there may be WordEmbeddings in a folder, and then no CNN.

    Raises:
        UnknownModelError: if it has other modules, or these in another order or place.
        BackboneError: if modules.json cannot be read.
    """
    file = folder / _MODULES_FILE
    if not file.is_file():
        return []
    try:
        listed = json.loads(file.read_text("utf-8"))
        modules = [Module(_kind(one["type"]), Path(one["path"]).as_posix()) for one in listed]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BackboneError(f"{file} is not a list of modules: {problem}") from problem
    if not _is_ours(modules):
        found = ", ".join(f"{kind} in {path}" if path != "." else kind for kind, path in modules)
        raise UnknownModelError(
            f"{folder} has modules that are not read here: {found}; expected are Transformer "
            "beside modules.json, or WordEmbeddings, then Pooling, then Dense and Normalize"
        )
    return modules


def token_layers_of(modules: Sequence[Module]) -> list[Module]:
    """Return the modules that come between the transformer and the pooler."""
    return list(takewhile(lambda module: module.kind != "Pooling", modules[1:]))


def layers_of(modules: Sequence[Module]) -> list[Module]:
    """Return the modules that come after the pooler."""
    return list(modules[2 + len(token_layers_of(modules)) :])


def other_folders(folder: Path) -> list[str]:
    """The folders of a saved encoder's layers that are neither dense nor normalisation."""
    known = {"Transformer", "Pooling", *_LAYER_KINDS}
    return [module.path for module in read_modules(folder) if module.kind not in known]


def dense_folders(folder: Path) -> list[str]:
    """The names of the dense layers' folders in a saved encoder; raises as `read_modules`."""
    return [module.path for module in read_modules(folder) if module.kind == "Dense"]


def read_length(folder: Path) -> int | None:
    """Word pieces, special ones included, at which a saved encoder cuts a text; None if unsaid."""
    stored = _read_texts(folder).get("max_seq_length")
    return stored if isinstance(stored, int) else None


def read_lower_casing(folder: Path) -> bool:
    """Whether texts of a saved encoder are put in lower case before its tokenizer has them."""
    return bool(_read_texts(folder).get("do_lower_case"))


def read_words_in_front(folder: Path) -> str | None:
    """The words that sentence-transformers puts before every text of this model, if any."""
    stored = _read(folder / _OPTIONS_FILE)
    name, prompts = stored.get("default_prompt_name"), stored.get("prompts") or {}
    return prompts.get(name) or None


def write_format(
    folder: Path,
    pooling: Pooling,
    *,
    width: int,
    max_length: int | None = None,
    first: Module = _TRANSFORMER,
    token_layers: Sequence[Module] = (),
    post_pooling: Sequence[Module] = (),
) -> None:
    """Add to a folder of model and tokenizer files what makes it a sentence encoder.

    `width` is that of the pooler's vectors; `max_length` counts special word pieces too, and is
    None where `first`, the module before the pooler, has it in its own folder.
    """
    pooler = pooling_folder(token_layers)
    steps = [first, *token_layers, Module("Pooling", pooler), *post_pooling]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": _type(kind)}
        for n, (kind, path) in enumerate(steps)
    ]
    _write(folder / _MODULES_FILE, modules)
    if max_length is not None:
        _write(folder / _TEXTS_FILE, {"max_seq_length": max_length})
    _write(folder / _OPTIONS_FILE, {"similarity_fn_name": "cosine"})
    stored = {"word_embedding_dimension": width} | _mode(pooling)
    _write(folder / pooler / "config.json", stored)


def pooling_folder(token_layers: Sequence[object]) -> str:
    """The folder of the pooler behind these layers."""
    return f"{1 + len(token_layers)}_Pooling"


def _type(kind: str) -> str:
    """Return a module's type as modules.json names it."""
    return kind if kind.startswith(OWN_KIND) else f"sentence_transformers.models.{kind}"


def _kind(type_: str) -> str:
    """Shorten a type to its class's name; code that a model brings along keeps its whole path."""
    return type_.rpartition(".")[2] if type_.startswith("sentence_transformers.") else type_


def _is_ours(modules: Sequence[Module]) -> bool:
    before, after = token_layers_of(modules), layers_of(modules)
    return (
        (modules[:1] == [Module("Transformer", ".")] or _begins_with_words(modules))
        and len(modules) > 1 + len(before)
        and all(_is_read(module.kind, _TOKEN_KINDS) for module in before)
        and all(_is_read(module.kind, _LAYER_KINDS) for module in after)
    )


def _begins_with_words(modules: Sequence[Module]) -> bool:
    """Whether a table of words comes right before the pooler."""
    return modules[0].kind == WORD_EMBEDDINGS and not token_layers_of(modules)


def _is_read(kind: str, kinds: Collection[str]) -> bool:
    return kind in kinds or kind.startswith(OWN_KIND)


def _pooler(stored: dict[str, Any]) -> Pooler | None:
    if "pooling_mode" in stored:  # as newer releases write it
        return _NAMES.get(stored["pooling_mode"])
    chosen = [key for key, on in stored.items() if key.startswith("pooling_mode_") and on]
    return _FLAGS.get(chosen[0]) if len(chosen) == 1 else None


def _mode(pooling: Pooling) -> dict[str, Any]:
    if pooling.pooler in _FLAGS.values():  # these flags are read by every release
        return {flag: pooler == pooling.pooler for flag, pooler in _FLAGS.items()}
    mode = {"pooling_mode": pooling.pooler}
    if pooling.pooler == "avg_first_last":
        return mode | {"first_layer": pooling.first_layer}
    return mode | ({"prompt": pooling.prompt} if pooling.prompt else {})


def _read_texts(folder: Path) -> dict[str, Any]:
    """Read a saved encoder's settings of how it reads texts."""
    return _read(next(iter(sorted(folder.glob(_TEXTS_FILES))), folder / _TEXTS_FILE))


def _read(file: Path) -> dict[str, Any]:
    """Read a file of settings; empty if there is none, BackboneError if it is unreadable."""
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as problem:
        raise BackboneError(f"{file} cannot be read: {problem}") from problem


def _write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
