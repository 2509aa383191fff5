"""Identity of sweeps and trials: what makes two of them the same.

A trial's key is a hash of everything that its results depend on. A start continues or extends the
stored sweep of its name as long as all `IDENTITY_KEYS` are unchanged.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from cse_methods.code_hash import code_hashes
from cse_methods.config import MethodConfig
from cse_methods.contract import Method
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import Corpora, CorpusSpec, test_sets_of
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.dev_sets import identify_dev_set
from cse_methods.data.overlap import TrainingData
from cse_methods.encoders.backbones import (
    fetch_backbone,
    own_pooling,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.files.named import is_file_name
from cse_methods.files.text import file_sha256
from cse_methods.published.released import teachers_of
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.problems import format_value
from cse_platform.sweep.spec import SweepSpec
from cse_platform.values import map_leaves

CODE = "code"
_CORPORA: TypeAdapter[Corpora] = TypeAdapter(Corpora)


def canonical_hash(value: Any) -> str:
    """Compute the SHA-256 of the value as JSON with sorted keys; floats are written by repr."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def code_hash(method: Method) -> str | None:
    """Hash all code of a method; None if its source cannot be read."""
    modules = code_hashes(method)
    return canonical_hash(modules) if modules else None


class DevData:
    """The dev sets of a sweep, each read once; raises DataError if one is unavailable."""

    def __init__(self, spec: SweepSpec) -> None:
        dev = spec.dev
        read = {name: identify_dev_set(dev, name, spec.data) for name in dev.tasks}
        self.sha256 = {name: sha256 for name, (_, sha256) in read.items()}
        self.columns = {
            "checkpoint": dev.checkpoint_name,
            "search": dev.search_name,
            "identity": _hash_selection(dev, self.sha256, spec.corpus),
            "source": "+".join(dict.fromkeys(read[name][0] for name in dev.climbed)),
            "corpus": "+".join(corpus.short_name for corpus in spec.corpus),
        }
        """The dev columns of a leaderboard row; rows with the same identity are comparable."""


def dev_identity(dev: DevSelection, data: str | None, *, corpora: Iterable[CorpusSpec] = ()) -> str:
    """Compute the identity of dev sets for trials on these corpora; DataError as in `DevData`."""
    names = (*dev.picking, *dev.climbed)
    read = {name: identify_dev_set(dev, name, data) for name in names}
    return _hash_selection(dev, {name: sha256 for name, (_, sha256) in read.items()}, corpora)


def _hash_selection(
    dev: DevSelection, sha256: Mapping[str, str], corpora: Iterable[CorpusSpec]
) -> str:
    """Hash the dev sets of both roles; with several that pick, the roles are kept apart.

    Training on the texts of test sets makes the hash a different one.
    """
    picked, climbed = (
        [part for name in sets for part in (name, sha256[name])]
        for sets in (dev.picking, dev.climbed)
    )
    dev_sets = canonical_hash([*picked, *climbed] if len(dev.picking) == 1 else [picked, climbed])
    test_sets = test_sets_of(corpora)
    return canonical_hash([dev_sets, *test_sets]) if test_sets else dev_sets


def training_data(spec: Mapping[str, Any], values: Mapping[str, Any]) -> TrainingData:
    """Read which data a trial trains on and is selected by.

    Args:
        spec: the sweep's spec at its last start, as JSON.
        values: all hyperparameters of the trial; may be empty if teachers do not matter.
    """
    dev = DevSelection.model_validate(spec.get("dev") or {})
    return TrainingData(
        dev=dev,
        chosen_on=tuple(dict.fromkeys((*dev.picking, *dev.climbed))),
        corpora=_CORPORA.validate_python(corpus) if (corpus := spec.get("corpus")) else (),
        backbone=spec.get("backbone"),
        teachers=teachers_of(values),
        data=spec.get("data"),
    )


@dataclass(frozen=True)
class ConfigurationIdentity:
    """Hashes of everything that the results of one configuration depend on."""

    ingredients: Mapping[str, Any]
    """Everything that results depend on except the seed."""

    @property
    def code(self) -> str | None:
        """Hash of the method's code; None if unknown."""
        return self.ingredients.get(CODE)

    @cached_property
    def hash(self) -> str:
        return canonical_hash(self.ingredients)

    def key(self, seed: int) -> str:
        """Compute the key of the trial with this seed."""
        return canonical_hash({**self.ingredients, "seed": seed})


class Identity:
    """The hashes of a sweep: of its code, corpus, dev sets and encoders, and per configuration."""

    def __init__(self, spec: SweepSpec, method: Method, dev: DevData) -> None:
        self.method = method
        self.code = code_hashes(method)
        self.backbone = spec.backbone
        corpus = load_corpus(spec.corpus, spec.data, backbone=spec.backbone)
        self.corpus_sha256, self.corpus_sentences = corpus.sha256, len(corpus.sentences)
        self.selection = spec.dev
        self.dev_sha256 = dev.sha256
        self.dev = dev.columns | {"corpus_sha256": corpus.sha256}

    def content(self) -> dict[str, Any]:
        """Return what the results of every trial depend on, keyed by the words of messages.

        Encoders and files that configurations name are only part of their trials' keys.
        """
        return {
            "revision": self.method.revision,
            CODE: self.code,
            "backbone weights": encoder_sha256(self.backbone),
            "corpus": self.corpus_sha256,
            "dev data": self.dev_sha256,
        }

    def of_config(self, config: MethodConfig) -> ConfigurationIdentity:
        """Compute the identity of a configuration; encoders and files count by their content."""
        contents: dict[str, Callable[[str], Any]] = dict.fromkeys(
            config.encoders(), _identify_encoder
        )
        contents |= dict.fromkeys(config.files(), _hash_file)
        if type(config) is not self.method.config:
            code = code_hash(replace(self.method, config=type(config)))
        else:
            code = canonical_hash(self.code) if self.code else None
        bases = {name: get_method(name).revision for name in config.bases}
        ingredients = {
            "method": self.method.name,
            "revision": self.method.revision,
            **({"bases": bases} if bases else {}),
            **({CODE: code} if code else {}),
            "configuration": map_leaves(
                config.hyperparameters(),
                lambda value: contents[value](value) if value in contents else value,
            ),
            "backbone": encoder_sha256(config.backbone),
            "corpus": self.corpus_sha256,
            "dev": self.selection.names(),
            "dev_data": self.dev_sha256,
            **config.ingredients(),
        }
        return ConfigurationIdentity(ingredients)


def encoder_sha256(backbone: str) -> str:
    """Hash an encoder's weights by its name, downloading it if needed; BackboneError if unknown."""
    return str(_identify_encoder(backbone)["weights"])


def _identify_encoder(name: str) -> dict[str, Any]:
    """Return an encoder's part of a key: its weights, with its head if it is read so, and pooling.

    The prompt of a teacher or backbone that a file sets is a hyperparameter; a folder's own prompt
    is part of the hash of its weights.
    """
    source = resolve_backbone(name)
    folder = fetch_backbone(source)
    weights = weights_sha256(folder)
    if source.head:
        weights = canonical_hash([weights, "head"])
    return {"weights": weights, **own_pooling(source, folder).key}


def _hash_file(name: str) -> dict[str, str]:
    try:
        return {"sha256": file_sha256(Path(name))}
    except OSError as problem:
        raise SweepRefusedError(
            f"the file {name!r} cannot be read: {problem.strerror}; the sweep's settings name it"
        ) from problem


IDENTITY_KEYS = (
    *("method", "backbone", "corpus", "dev", "fixed", "space"),
    *("search.sampler", "search.seed", "seeds.search", "seeds.repeats"),
)
"""The keys that every trial depends on; together with the name they identify a sweep."""

READ_BY_CONTENT = ("corpus", "dev")
"""Keys that name data files. Files may move: only their names are compared here, and their content
is compared by hash."""

GROWING = ("search", "seeds", "evaluate", "tags", "keep")
"""Keys that may change between two starts, which can give a complete sweep more to do."""

SettingChange = tuple[str, Any, Any]
"""The path of a changed value, its old value and its new value."""


def refuse_changes(stored: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
    """Raise SweepRefusedError unless this start continues or extends the stored sweep.

    `stored` is the spec of the last start, as JSON, or None for a new sweep; `now` is the spec of
    this start. The message names the first change and says what to do.
    """
    if stored is None:
        return
    if change := next(find_changes(stored, now), None):
        path, old, new = change
        reused = ""
        if path.partition(".")[0] in ("space", "search"):
            reused = (
                ", which reuses its complete trials; `search: {learn_from: "
                f"[{now['sweep']}]}}` lets the sampler learn from all of them"
            )
        raise SweepRefusedError(
            f"sweep {now['sweep']!r} was started with {path} = {format_value(old)}, and now "
            f"it is {format_value(new)}; run it as another sweep: --set sweep=NEWNAME{reused}"
        )


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[SettingChange]:
    """Yield each difference that makes two specs, as JSON, different sweeps."""
    for name in IDENTITY_KEYS:
        old: Any = before
        new: Any = after
        for step in name.split("."):
            old, new = (old or {}).get(step), (new or {}).get(step)
        if name in READ_BY_CONTENT:
            old, new = map_leaves(old, _strip_folder), map_leaves(new, _strip_folder)
        yield from _compare_values(name, old, new)


def has_nothing_to_add(stored: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    """Whether a complete sweep has nothing to add: the `GROWING` keys are unchanged."""
    return stored is not None and all(stored.get(name) == now.get(name) for name in GROWING)


def settings_hash(specs: Iterable[SweepSpec]) -> str:
    """Hash what decides which trials the sweeps of a file run; test sets have no part in it."""
    keys = {"sweep", "pruner", *(name.partition(".")[0] for name in IDENTITY_KEYS)}
    return canonical_hash([spec.model_dump(mode="json", include=keys) for spec in specs])


def _compare_values(path: str, before: Any, after: Any) -> Iterator[SettingChange]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in (*before, *(name for name in after if name not in before)):
            yield from _compare_values(f"{path}.{name}", before.get(name), after.get(name))
    elif (
        isinstance(before, list) and isinstance(after, list) and len(before) == len(after)
    ) and all(isinstance(entry, dict) for entry in (*before, *after)):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from _compare_values(f"{path}.{index}", *pair)
    else:
        yield path, before, after


def _strip_folder(leaf: Any) -> Any:
    return Path(leaf).name if isinstance(leaf, str) and is_file_name(leaf) else leaf
