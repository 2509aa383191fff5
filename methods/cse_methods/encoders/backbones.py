"""Pre-trained encoders by name: what a name stands for, where its files are, how to get them."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar, cast

from cse_methods.encoders.families import first_position, refuse_other_families
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.sentence_transformers_format import (
    LIBRARY_KINDS,
    Pooling,
    list_modules,
    read_options,
    read_pooler,
    read_pooling,
    read_text_settings,
    refuse_other_settings,
    transformer_folder,
)
from cse_methods.encoders.short_names import HUB, ONLY_PACKAGED, packaged_folder
from cse_methods.encoders.static_files import is_static, static_files
from cse_methods.errors import BackboneError, UnknownModelError, nearest_hint
from cse_methods.files.hub import explain_hub_error
from cse_methods.files.named import expand
from cse_methods.files.places import fetch_copy, find_copy, is_remote
from cse_methods.files.text import explain_pointer, file_sha256

_INDEX = ".index.json"
PICKLED = "pytorch_model.bin"
WEIGHTS = ("model.safetensors", f"model.safetensors{_INDEX}", PICKLED, PICKLED + _INDEX)
"""The files of weights, as transformers looks for them; an index names several."""
TOKENIZER = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt")
SENTENCE_PIECE = ("spm.model", "spiece.model", "sentencepiece.bpe.model")
"""Files from which a tokenizer is made in an older folder without any other."""

_SMALL_FILES = (
    *("config.json", *TOKENIZER, *SENTENCE_PIECE),
    *("tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "modules.json", "*_*/config.json", "adapter_config.json"),
    *("sentence_*_config.json", "config_sentence_transformers.json"),
)
_SAFETENSORS = ("model*.safetensors", f"model.safetensors{_INDEX}")
_PICKLES = ("pytorch_model*.bin", PICKLED + _INDEX)

ADAPTER = "adapter_config.json"
_WEIGHT_SUFFIXES = (".safetensors", ".bin")
_READ_BY_LIBRARY = (*_WEIGHT_SUFFIXES, ".json", ".txt", ".model")
"""The endings of the files that sentence-transformers may read of an encoder."""

Folder = TypeVar("Folder", Path, Path | None)


@dataclass(frozen=True)
class Backbone:
    """Where a pre-trained encoder comes from."""

    name: str
    """The name as given, which is stored and shown."""
    model: str | Path
    """A hub id, the folder (or file of word vectors) that contains it, or its URI in an object
    store."""
    revision: str | None = None
    """The commit, branch or tag on the hub; None is the newest."""
    pooler: Pooler | None = None
    """The pooler for which it was made; None if unknown."""
    head: bool = False
    """Whether its vectors are read after the dense layer with tanh that its weights have."""

    def reads_head(self, pooler: Pooler | None) -> bool:
        """Whether that layer follows this pooler unless it is asked for or left out."""
        return self.head and pooler in (None, "cls")

    @property
    def origin(self) -> str:
        """Describe where it comes from and, if no revision is pinned, how to pin one."""
        if isinstance(self.model, Path) or is_remote(self.model) or self.revision:
            return f"{self.model} at {self.revision}" if self.revision else str(self.model)
        return f"{self.model}, whichever revision is newest (to pin one: {self.name}@REVISION)"


_KNOWN = {"mini": Backbone("mini", Path(__file__).parents[1] / "mini", None, "avg")} | {
    name: Backbone(
        name,
        row["model"],
        row["revision"] or None,
        cast(Pooler, row["pooler"]),
        row["head"] == "yes",
    )
    for name, row in HUB.items()
}

_BY_HUB_ID = {str(known.model): known for known in _KNOWN.values() if isinstance(known.model, str)}


def resolve_backbone(name: str) -> Backbone:
    """Determine what a name stands for: a short name, a folder, a URI or a hub id.

    A hub id is `owner/name`. It, or the short name of one, may end in `@REVISION`: a commit, branch
    or tag. Nothing is downloaded, and a hub id is not looked up.

    BackboneError if the name is none of these, the folder is not a complete encoder, or the package
    that contains it is not installed.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    if name in ONLY_PACKAGED:
        if packaged := packaged_folder(name):
            return Backbone(name, packaged, None, "avg")
        raise BackboneError(
            f"encoder {name!r} comes with a package that is not installed here, or with other "
            f"weights than are known: {ONLY_PACKAGED[name]}"
        )
    if is_remote(name):
        return Backbone(name, name)
    folder = Path(expand(name))
    parts = folder.parts  # what does not exist may have been meant as a folder, or as a hub id
    written = name.startswith((".", "~")) or folder.is_absolute() or len(parts) > 2
    if folder.exists() or written or (len(parts) == 2 and folder.parent.is_dir()):
        if problem := _explain_incomplete(folder):
            raise BackboneError(f"encoder {name!r}: {problem}")
        pooling = None if explain_foreign(folder) else read_pooling(folder)
        return Backbone(name, folder, None, pooling.pooler if pooling else None)
    model, _, after = name.partition("@")
    revision = after if re.fullmatch(r"\w[\w./-]*", after) else None
    model = model if revision else name
    known = _BY_HUB_ID.get(str(_KNOWN[model].model) if model in _KNOWN else model)
    if known and (revision or model not in _KNOWN):
        return replace(known, name=name, revision=revision)
    if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", model):
        return Backbone(name, model, revision)
    names = [*_KNOWN, *ONLY_PACKAGED]
    hint = nearest_hint(name.lower(), names)
    raise BackboneError(
        f"no encoder {name!r}.{hint} Known: {', '.join(names)}; or a folder, or a hub id "
        "owner/name or owner/name@REVISION"
    )


def locate_backbone(source: Backbone) -> Path | None:
    """Return the folder of the encoder on this machine; None if it must be downloaded first.

    This is the folder in an installed package that contains it, else in the hub's cache, or in our
    cache for an encoder in an object store.

    BackboneError if the object store has no such folder, or does not answer.
    """
    if isinstance(source.model, Path):
        return source.model
    if is_remote(source.model):
        return _copy_remote(source.model, find_copy)
    if folder := packaged_folder(source.name):
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # Without weights: a cache that has one of two known formats would count as incomplete.
        cached = snapshot_download(
            source.model,
            revision=source.revision,
            allow_patterns="config.json",
            local_files_only=True,
        )
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return None if _explain_incomplete(Path(cached)) else Path(cached)


def fetch_backbone(source: Backbone) -> Path:
    """Return the folder of the encoder on this machine, downloading it if needed.

    BackboneError if it cannot be downloaded, or is not an encoder.
    """
    if folder := locate_backbone(source):
        return folder
    if is_remote(str(source.model)):
        return _copy_remote(str(source.model), fetch_copy)
    asked = f"{source.name!r} ({source.origin})"
    try:
        folder = _download_backbone(source)
    except (OSError, ValueError) as problem:
        reason = explain_hub_error(problem, str(source.model), kind="models")
        raise BackboneError(
            f"cannot fetch encoder {asked} from the hub: {reason}; or name a folder with its files"
        ) from problem
    if lacking := _explain_incomplete(folder):
        raise BackboneError(f"encoder {asked} cannot be used: {lacking}")
    return folder


def own_pooling(source: Backbone, folder: Path) -> Pooling:
    """Return the pooling for which an encoder was made; the mean if neither table nor folder says.

    That of a foreign encoder is its library's matter, and part of the hash of its folder.
    """
    if explain_foreign(folder):
        return Pooling("avg")
    if source.pooler and (not isinstance(source.model, Path) or source.name in _KNOWN):
        return Pooling(source.pooler)
    return read_pooling(folder) or Pooling("avg")


def backbone_width(name: str) -> int | None:
    """Return the width of the encoder's token vectors; None if it is not here or does not say."""
    folder = locate_backbone(resolve_backbone(name))
    if folder is None or explain_foreign(folder):
        return None
    stored = json.loads((transformer_folder(folder) / "config.json").read_text())
    width = stored.get("hidden_size") or stored.get("dim")
    return width if isinstance(width, int) else None


def weights_sha256(folder: Path) -> str:
    """Hash, in hex digits, everything that an encoder's vectors depend on.

    This is the weights, the configuration, the tokenizer, the layers around the pooler, the length
    to which texts are truncated if it is below the number of positions, the folder's own text
    before every sentence, and how many coordinates it keeps. The pooler is left out, because a
    setting can replace it. Of a foreign encoder it is every file, those of an adapter's base too,
    and the versions of sentence-transformers and transformers, whose code reads it. Raises
    BackboneError if the encoder is incomplete.
    """
    if problem := _explain_incomplete(folder):
        raise BackboneError(problem)
    files = list_encoder_files(folder)
    lines = [f"{file.relative_to(folder).as_posix()} {file_sha256(file)}\n" for file in files]
    if explain_foreign(folder):
        libraries = ("sentence-transformers", "transformers")
        lines += [f"{library} {version(library)}\n" for library in libraries]
        if base := adapted_folder(folder):
            lines.append(f"base {weights_sha256(base)}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    # Added only if there are any, so that the hashes of other encoders stay what they were.
    if len(modules := list_modules(folder)) > len(("Transformer", "Pooling")):
        lines.append(f"modules {' '.join(f'{kind} {path}' for kind, path in modules)}\n")
    if (length := _find_shorter_length(folder)) is not None:
        lines.append(f"length {length}\n")
    if options := read_options(folder):
        lines.append(f"options {json.dumps(options, sort_keys=True)}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def weight_bytes(folder: Path) -> int:
    """Sum the sizes of the files that contain an encoder's weights, in bytes."""
    if is_static(folder):
        files = static_files(folder)
    elif explain_foreign(folder):
        files = [file for file in list_encoder_files(folder) if file.suffix in _WEIGHT_SUFFIXES]
    else:
        files = list_weights(transformer_folder(folder))
    return sum(file.stat().st_size for file in files)


def explain_foreign(folder: Path) -> str | None:
    """Explain why sentence-transformers reads an encoder, and not this package; None if it does."""
    if is_static(folder):
        return f"{folder} is a table of word vectors"
    if not folder.is_dir():
        return None
    try:
        file = transformer_folder(folder) / "config.json"
        if file.with_name(ADAPTER).is_file():
            return f"{file.parent} holds an adapter"
        read_pooling(folder)
        if file.is_file():
            refuse_other_families(dict(json.loads(file.read_text("utf-8"))), file, folder.name)
        refuse_other_settings(folder)
    except UnknownModelError as problem:
        return str(problem)
    except (OSError, ValueError, TypeError, BackboneError):
        return None  # said when the file is read
    return None


def foreign_pooler(folder: Path) -> Pooler | None:
    """Return the pooler of a foreign encoder; None if it has no name here."""
    return "avg" if is_static(folder) else read_pooler(folder)


def refuse_untrainable(name: str, folder: Path) -> None:
    """Raise UnknownModelError if sentence-transformers reads an encoder, which is not trained."""
    if foreign := explain_foreign(folder):
        raise UnknownModelError(
            f"encoder {name!r} is read by sentence-transformers ({foreign}), so that nothing is "
            "trained on it; the method untrained scores it as it is, and for this method take a "
            "pre-trained encoder such as bert-base"
        )


def adapted_folder(folder: Path) -> Path | None:
    """Return the folder of the encoder that an adapter changes; None if there is no adapter.

    BackboneError if that encoder is not on this machine.
    """
    file = transformer_folder(folder) / ADAPTER
    if not file.is_file():
        return None
    try:
        base = str(json.loads(file.read_text("utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise BackboneError(f"{file} does not name what it adapts: {problem}") from problem
    try:
        adapted = locate_backbone(resolve_backbone(base))
    except BackboneError as problem:
        raise BackboneError(f"{file}: {problem}") from problem
    if adapted is None:
        raise BackboneError(
            f"{file} adapts {base!r}, which is not on this machine; download it first, or merge "
            "the adapter into it"
        )
    if (adapted / ADAPTER).is_file():
        raise BackboneError(f"{file} adapts {base!r}, an adapter itself; merge that one first")
    return adapted


def list_weights(folder: Path) -> list[Path]:
    """List the files of a transformer's weights, an index before the files that it names.

    BackboneError if one of them is not there, or the index cannot be read.
    """
    first = next((file for name in WEIGHTS if (file := folder / name).is_file()), None)
    if first is None:
        raise BackboneError(f"{folder} has no weights; expected {WEIGHTS[0]} or {PICKLED}")
    if not first.name.endswith(_INDEX):
        return [first]
    if pointer := explain_pointer(first):
        raise BackboneError(pointer)
    try:
        names = sorted(set(json.loads(first.read_text("utf-8"))["weight_map"].values()))
        present = {file.name for file in folder.iterdir()}  # a name that is a path is not followed
        missing = [name for name in names if name not in present]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise BackboneError(f"{first} is not an index of weights: {problem}") from problem
    if missing:
        raise BackboneError(
            f"{folder} has no {missing[0]}, one of the {len(names)} files of weights that "
            f"{first.name} names; download it"
        )
    return [first, *(folder / name for name in names)]


def list_encoder_files(folder: Path) -> list[Path]:
    """List the files on which an encoder's vectors depend, sorted by relative path."""
    if is_static(folder):
        return static_files(folder)
    if explain_foreign(folder):
        files = {file for file in folder.rglob("*") if file.suffix in _READ_BY_LIBRARY}
        return sorted(file for file in files if file.is_file())
    model = transformer_folder(folder)
    tokenizer = TOKENIZER if (model / "tokenizer.json").is_file() else (*TOKENIZER, *SENTENCE_PIECE)
    files = set(list_weights(model))
    files |= {model / name for name in ("config.json", *tokenizer)}
    for module in list_modules(folder):
        layer = folder / module.path
        if module.kind == "Dense":
            safe = (layer / WEIGHTS[0]).is_file()
            files |= {layer / "config.json", layer / (WEIGHTS[0] if safe else PICKLED)}
        elif module.kind not in LIBRARY_KINDS:
            files.update(layer.glob("*"))
    present = [file for file in files if file.is_file()]
    return sorted(present, key=lambda file: file.relative_to(folder).as_posix())


def _find_shorter_length(folder: Path) -> int | None:
    """Return the length to which texts are truncated if that is below the model's positions."""
    transformer = transformer_folder(folder)
    config = json.loads((transformer / "config.json").read_text("utf-8"))
    file = transformer / "tokenizer_config.json"
    tokenizer = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    length = read_text_settings(folder)[0] or tokenizer.get("model_max_length")
    positions = config.get("max_position_embeddings")
    if not isinstance(length, int | float) or not isinstance(positions, int):
        return None
    return int(length) if length < positions - first_position(config) else None


def _copy_remote(uri: str, copy: Callable[[str], Folder]) -> Folder:
    """Return this machine's copy of an encoder in an object store; BackboneError if invalid."""
    try:
        folder = copy(uri)
    except (OSError, ValueError) as problem:
        line = str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__
        raise BackboneError(
            f"cannot read encoder {uri!r}: {line}. Expected a folder of an object "
            "store that this machine reaches, with the store's keys in its environment"
        ) from problem
    if folder is not None and (lacking := _explain_incomplete(folder)):
        raise BackboneError(f"encoder {uri!r} cannot be used: {lacking}")
    return folder


def _download_backbone(source: Backbone) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import RemoteEntryNotFoundError

    repository, revision = str(source.model), source.revision

    def snapshot(*patterns: str) -> Path:
        wanted = [*_SMALL_FILES, *patterns]
        return Path(snapshot_download(repository, revision=revision, allow_patterns=wanted))

    # If the hub is busy, one file is tried again for half a minute; a snapshot fails at once.
    with suppress(RemoteEntryNotFoundError):  # models of other kinds may not have this file
        hf_hub_download(repository, "config.json", revision=revision)
    if explain_foreign(small := snapshot()):
        whole = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=[f"*{suffix}" for suffix in _READ_BY_LIBRARY],
            ignore_patterns=["onnx/*", "openvino/*"],
        )
        return Path(whole)
    modules = list_modules(small)
    layers = [f"{module.path}/*" for module in modules[1:]]
    inside = f"{modules[0].path}/" if modules and modules[0].path != "." else ""
    wanted = (*_SAFETENSORS, *((*_SMALL_FILES, "*.json") if inside else ()))
    folder = snapshot(*(f"{inside}{name}" for name in wanted), *layers)
    # Older repositories have only the pickled format; downloading both would double the size.
    present = any((folder / inside / name).is_file() for name in WEIGHTS)
    return folder if present else snapshot(*(f"{inside}{name}" for name in _PICKLES))


def _explain_incomplete(folder: Path) -> str | None:
    """Explain why a folder is not a complete encoder; None if it is."""
    if folder.exists() and is_static(folder):
        files = static_files(folder)
        lacking = [file for file in files if not file.is_file()]
        return f"{lacking[0]} is not there" if lacking else _explain_pointers(files)
    if folder.is_file():
        return (
            "it is neither an encoder's folder nor a text file of word vectors, which ends "
            "with .txt or .vec, or these with .gz, .bz2 or .xz; unpack it, or give it that name"
        )
    if not folder.is_dir():
        return "there is no such folder"
    if explain_foreign(folder):
        files = list_encoder_files(folder)
        if not any(file.suffix in _WEIGHT_SUFFIXES for file in files):
            return f"{folder} has no weights; expected {WEIGHTS[0]} or {PICKLED}"
        try:
            for transformer in {file.parent for file in files if file.name.endswith(_INDEX)}:
                list_weights(transformer)
        except BackboneError as problem:
            return str(problem)
        return _explain_pointers(files)
    transformer = transformer_folder(folder)
    if not (transformer / "config.json").is_file():
        return f"{transformer} has no config.json; an encoder's folder holds it beside the weights"
    if not any((transformer / name).is_file() for name in (*TOKENIZER, *SENTENCE_PIECE)):
        return f"{transformer} has no tokenizer; expected tokenizer.json or a vocabulary"
    try:
        return _explain_pointers(list_encoder_files(folder))
    except BackboneError as problem:
        return str(problem)


def _explain_pointers(files: Iterable[Path]) -> str | None:
    return next(filter(None, map(explain_pointer, files)), None)
