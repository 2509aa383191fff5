"""Training corpora: raw sentences by name, from the grammar, a file, a data folder or the hub."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.language.cutting import cut_sentences, load_tokenizer
from cse_methods.data.source import DataSource, HubFile, data_source
from cse_methods.errors import DataError, nearest_hint
from cse_methods.files.named import is_file_name
from cse_methods.files.text import read_lines, sha256_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Sentences to train on, in file order."""

    name: str
    """As named in the configuration; joined corpora as `a+b`."""
    sentences: Sequence[str]
    sha256: str
    """Checksum of the sentences, each ended by a line feed."""


@dataclass(frozen=True)
class _Known:
    """A corpus of the papers, wherever it lies."""

    hub: tuple[HubFile, ...]
    local_names: tuple[str, ...]
    lines: int
    """Lines of all files together, before anything is dropped."""
    wiki_markup: bool = False
    """Blank lines stand between paragraphs, and headings between equals signs; both are dropped."""


KNOWN = {
    "wiki1m": _Known(
        hub=(HubFile("princeton-nlp/datasets-for-simcse", "wiki1m_for_simcse.txt", "main"),),
        local_names=("wiki1m.txt", "wiki1m_for_simcse.txt"),
        lines=1_000_000,
    ),
    "wikitext103": _Known(
        hub=tuple(
            HubFile("Salesforce/wikitext", f"wikitext-103-raw-v1/train-{part}.parquet", "main")
            for part in ("00000-of-00002", "00001-of-00002")
        ),
        local_names=("wikitext103.txt",),
        lines=1_801_350,
        wiki_markup=True,
    ),
}


def load_corpus(
    specs: Sequence[CorpusSpec], data: str | None, *, backbone: str | None = None
) -> Corpus:
    """The sentences of all named corpora, one corpus after the other.

    A name is `builtin`; a text file (it contains `/` or ends in `.txt`); NAME for the file
    `corpus/NAME.txt` of the data folder; or `wiki1m` or `wikitext103` (its paragraphs), which are
    fetched from the hub if need be. Files hold one sentence a line in UTF-8; white space around a
    sentence is dropped.

    Args:
        specs: the corpora, at least one.
        data: the setting `data`: `builtin`, `hub`, a folder, or None for CSE_DATA.
        backbone: the encoder in whose word pieces `split_at` counts.

    Raises:
        DataError: if a name is unknown, a file cannot be fetched or read, has no sentence, has an
            empty line that `drop_empty` does not allow, or is a known corpus of another size.
        BackboneError: if `split_at` is set and the backbone's tokenizer cannot be had.
        ValueError: if `split_at` is set and no backbone is given.
    """
    source = data_source(data)
    sentences = [
        sentence for spec in specs for sentence in _fitting(_load(spec, source), spec, backbone)
    ]
    return Corpus("+".join(spec.name for spec in specs), sentences, sha256_of(sentences))


def missing_corpora(specs: Sequence[CorpusSpec], data: str | None) -> list[str]:
    """What `load_corpus` would have to fetch first, for people; a DataError for an unknown name."""
    source = data_source(data)
    names = dict.fromkeys(spec.name for spec in specs)
    places = [(name, place) for name in names for place in _locate(name, source)]
    missing = [(name, p) for name, p in places if isinstance(p, HubFile) and not p.cached]
    return list(dict.fromkeys(f"corpus {name} ({place.repository})" for name, place in missing))


def _load(spec: CorpusSpec, source: DataSource) -> Sequence[str]:
    places = _locate(spec.name, source)
    if not places:
        return builtin_corpus()
    paths = [place.fetch() if isinstance(place, HubFile) else place for place in places]
    lines = [line.strip() for path in paths for line in read_lines(path)]
    known = KNOWN.get(spec.name)
    if known and len(lines) != known.lines:
        raise DataError(
            f"{paths[0]}: {spec.name} has {known.lines} lines, found {len(lines)}; "
            "fetch it again, or name the file by its path to train on it as it is"
        )
    if known and known.wiki_markup:
        return [line for line in lines if line and not (line[0] == line[-1] == "=")]
    return _without_empty(lines, paths[0], drop=spec.drop_empty)


def _fitting(sentences: Sequence[str], spec: CorpusSpec, backbone: str | None) -> Iterable[str]:
    if spec.split_at is None:
        return sentences
    if backbone is None:
        raise ValueError(
            f"corpus {spec.name!r} has split_at={spec.split_at}, which counts the word pieces "
            "of a backbone; pass backbone="
        )
    return cut_sentences(sentences, load_tokenizer(backbone), length=spec.split_at)


def _without_empty(lines: list[str], path: Path, *, drop: bool) -> list[str]:
    sentences = [line for line in lines if line]
    if not sentences:
        raise DataError(f"{path}: no sentences; a corpus holds one sentence a line")
    empty = len(lines) - len(sentences)
    if empty and not drop:
        raise DataError(
            f"{path}, line {lines.index('') + 1}: empty, the first of {empty}; "
            "remove them, or set drop_empty: true for this corpus"
        )
    if empty:
        _log.info("%s: dropped %d empty lines", path, empty)
    return sentences


def _locate(name: str, source: DataSource) -> tuple[Path | HubFile, ...]:
    """The files of a corpus; none for the built-in one."""
    if name == "builtin":
        return ()
    if is_file_name(name):
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"corpus {name!r}: no such file; name a text file, a sentence a line")
        return (path,)
    local_names = KNOWN[name].local_names if name in KNOWN else (f"{name}.txt",)
    if isinstance(source, Path):
        for local_name in local_names:
            if (path := source / "corpus" / local_name).is_file():
                return (path,)
    if name in KNOWN:
        return KNOWN[name].hub
    raise _unknown(name, source)


def _unknown(name: str, source: DataSource) -> DataError:
    local = {path.stem for path in source.glob("corpus/*.txt")} if isinstance(source, Path) else ()
    names = sorted({"builtin", *KNOWN, *local})
    where = f"in {source}" if isinstance(source, Path) else "(CSE_DATA or data: may name a folder)"
    return DataError(
        f"no corpus {name!r} {where}.{nearest_hint(name, names)} There are: {', '.join(names)}, or "
        "a path to a text file"
    )
