"""Loads training corpora by name: from the grammar, a file, a folder, a data folder or the hub."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.language.cutting import cut_sentences, load_tokenizer
from cse_methods.data.source import DataSource, HubFile, data_source
from cse_methods.encoders.backbones import (
    SENTENCE_PIECE,
    TOKENIZER,
    fetch_backbone,
    resolve_backbone,
)
from cse_methods.encoders.sentence_transformers_format import transformer_folder
from cse_methods.errors import DataError, nearest_hint
from cse_methods.files.cache import cache_folder, cache_key
from cse_methods.files.cells import read_numbers, read_texts
from cse_methods.files.named import (
    COMPRESSED,
    TABLES,
    TEXTS,
    expand,
    files_below,
    is_file_name,
    kind_of_file,
    nearest_file_hint,
)
from cse_methods.files.tables import read_table, shorten
from cse_methods.files.text import FileVersion, file_version, read_lines, sha256_of

CorpusRows = list[tuple[Any, ...]]
"""The texts of each row, and its label if there is one."""


class CorpusFile(NamedTuple):
    rows: CorpusRows
    dropped: int
    """Number of rows that were dropped because a sentence in them was empty."""
    notes: Sequence[str] = ()
    """Sentences on how the file was read, if there is something to say."""


@dataclass(frozen=True)
class _Known:
    """A corpus of the papers, wherever its files are."""

    hub: tuple[HubFile, ...]
    local_names: tuple[str, ...]
    lines: int
    """Number of lines of all files together, before any are dropped."""
    columns: tuple[str, ...] = ()
    """The columns of a table; a configuration has to name those it reads."""
    wiki_markup: bool = False
    """Whether the text has blank lines between paragraphs and headings between equals signs; both
    are dropped.
    """


KNOWN = {
    "wiki1m": _Known(
        hub=(HubFile("princeton-nlp/datasets-for-simcse", "wiki1m_for_simcse.txt", "main"),),
        local_names=("wiki1m.txt", "wiki1m_for_simcse.txt"),
        lines=1_000_000,
    ),
    # The triples of SNLI and MNLI that supervised SimCSE trains on.
    "nli": _Known(
        hub=(HubFile("princeton-nlp/datasets-for-simcse", "nli_for_simcse.csv", "main"),),
        local_names=("nli.csv", "nli_for_simcse.csv"),
        lines=275_601,
        columns=("sent0", "sent1", "hard_neg"),
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
    """Load the sentences of all named corpora, one corpus after the other.

    A name is one of these:
    - `builtin`;
    - a file of the hub, `hf://datasets/OWNER/NAME/FILE`;
    - a path of a file or folder: it contains `/` or ends as a text or table does;
    - NAME for the file `corpus/NAME.txt` of the data folder, or for one with another known ending;
    - `wiki1m`, `wikitext103` (its paragraphs) or `nli`, which are fetched from the hub if needed.

    A text holds one sentence a line, in UTF-8; for a table, the configuration names the columns.
    All texts and tables of a folder are read, sorted by name. White space around sentences is
    dropped. Texts of test sets (`transductive`) are read where `hand_out_texts` of
    `cse_methods.evaluation` wrote them.

    Args:
        specs: the corpora, at least one; all must name the same number of columns.
        data: the setting `data`: `builtin`, `hub`, a folder, or None for CSE_DATA.
        backbone: the encoder whose word pieces `split_at` counts.

    Raises:
        DataError: if a name is unknown, a file cannot be fetched or read, has no sentence, has an
            empty line that `drop_empty` does not allow, or is a known corpus of another size.
        BackboneError: if `split_at` is set and the backbone's tokenizer cannot be loaded.
        ValueError: if `split_at` is set and no backbone is given.
    """
    source = data_source(data)
    located = [file for spec in specs for file in _locate_files(spec, source)]
    files = [file.fetch() if isinstance(file, HubFile) else file for file in located]
    if backbone is not None and any(spec.split_at for spec in specs):
        folder = transformer_folder(fetch_backbone(resolve_backbone(backbone)))
        names = (*TOKENIZER, *SENTENCE_PIECE)
        files += [folder / name for name in names if (folder / name).is_file()]
    return _join_corpora(tuple(specs), source, backbone, tuple(map(file_version, files)))


@lru_cache(maxsize=1)
def _join_corpora(
    specs: tuple[CorpusSpec, ...],
    source: DataSource,
    backbone: str | None,
    versions: tuple[FileVersion, ...],
) -> Corpus:
    """Read all corpora and join them.

    The last result is kept in memory for the next trial of the process, and for the driver.
    """
    del versions
    weighted = len(specs) > 1 and any(spec.weight is not None for spec in specs)
    kinds = {(len(spec.columns), spec.label, spec.loss, spec.prompt) for spec in specs}
    if weighted or len(kinds) > 1:
        parts = tuple(_read_alike_corpora((spec,), source, backbone) for spec in specs)
        return Corpus(
            "+".join(part.name for part in parts),
            tuple(chain.from_iterable(part.sentences for part in parts)),
            sha256_of(part.sha256 for part in parts),
            parts=parts,
            dropped=sum(part.dropped for part in parts),
            notes=tuple(note for part in parts for note in part.notes),
        )
    return _read_alike_corpora(specs, source, backbone)


def _read_alike_corpora(
    specs: Sequence[CorpusSpec], source: DataSource, backbone: str | None
) -> Corpus:
    """Read corpora whose rows are alike, one after the other."""
    files = [_read_corpus(spec, source) for spec in specs]
    read = [
        [row for file in part for row in file.rows][: spec.first]
        for spec, part in zip(specs, files, strict=True)
    ]
    name = "+".join(spec.short_name for spec in specs)
    dropped = sum(file.dropped for part in files for file in part)
    notes = tuple(note for part in files for file in part for note in file.notes)
    if specs[0].columns or specs[0].label is not None:
        rows = [row for part in read for row in part]
        sha256 = sha256_of(json.dumps(row) for row in rows)
        cells = list(zip(*rows, strict=True))
        labels = cells.pop() if specs[0].label is not None else ()
        columns = tuple(cells) if len(cells) > 1 else ()
        return Corpus(name, cells[0], sha256, columns, labels, dropped=dropped, notes=notes)
    sentences = list[str]()
    for spec, rows in zip(specs, read, strict=True):
        whole = [first for (first,) in rows]
        if spec.split_at is not None:
            if backbone is None:
                raise ValueError(
                    f"corpus {spec.name!r} has split_at={spec.split_at}, which counts the word "
                    "pieces of a backbone; pass backbone="
                )
            tokenizer = load_tokenizer(backbone)
            sentences += cut_sentences(whole, tokenizer, length=spec.split_at)
        else:
            sentences += whole
    return Corpus(name, tuple(sentences), sha256_of(sentences), dropped=dropped, notes=notes)


def missing_corpora(specs: Sequence[CorpusSpec], data: str | None) -> list[str]:
    """Describe each corpus that `load_corpus` would fetch. Raises DataError for an unknown name."""
    source = data_source(data)
    names = {spec.name: spec for spec in specs if not spec.transductive}
    located = [(name, file) for name in names for file in _locate_files(names[name], source)]
    missing = [(name, p) for name, p in located if isinstance(p, HubFile) and not p.cached]
    return list(dict.fromkeys(f"corpus {name} ({file.repository})" for name, file in missing))


def _read_corpus(spec: CorpusSpec, source: DataSource) -> list[CorpusFile]:
    located = _locate_files(spec, source)
    if not located:
        return [CorpusFile([(sentence,) for sentence in builtin_corpus()], 0)]
    paths = [file.fetch() if isinstance(file, HubFile) else file for file in located]
    if known := KNOWN.get(spec.name):
        return [_read_known_corpus(spec, known, paths)]
    return [
        read_corpus_file(path, spec, name=f"{spec.short_name}/{path.name}" if paths[1:] else None)
        for path in paths
    ]


def _read_known_corpus(spec: CorpusSpec, known: _Known, paths: Sequence[Path]) -> CorpusFile:
    if known.columns and not spec.named_columns:
        raise DataError(
            f"corpus {spec.name!r} is a table; name its columns: {{name: {spec.name}, columns: "
            f"[{', '.join(known.columns)}]}}"
        )
    table = read_corpus_file(paths[0], spec) if known.columns else None
    lines = [] if table else [line.strip() for path in paths for line in read_lines(path)]
    count = len(table.rows) + table.dropped if table else len(lines)
    if count != known.lines:
        raise DataError(
            f"{paths[0]}: {spec.name} has {known.lines} lines, found {count}; "
            "fetch it again, or name the file by its path to train on it as it is"
        )
    if table:
        return table
    if known.wiki_markup:
        sentences = [line for line in lines if line and not (line[0] == line[-1] == "=")]
        return CorpusFile([(line,) for line in sentences], 0)
    return CorpusFile(*without_empty(lines, paths[0], drop=spec.drop_empty))


def handed_out_texts(spec: CorpusSpec, source: DataSource) -> Path:
    """Return the path of the texts of test sets; the file exists once they are handed out."""
    key = cache_key({"name": spec.name, "source": str(source)})
    return cache_folder("test-texts") / f"{spec.name}-{key}.txt"


def _locate_files(spec: CorpusSpec, source: DataSource) -> tuple[Path | HubFile, ...]:
    """Find the files of a corpus on this machine or on the hub; the built-in one has none."""
    name = spec.name
    if spec.transductive:
        texts = handed_out_texts(spec, source)
        if not texts.is_file():
            raise DataError(
                f"the texts of the test set {name!r} are not on this machine; cse-sweep sends "
                "them before the first trial"
            )
        return (texts,)
    if name == "builtin":
        return ()
    if "://" in name:
        return (HubFile.at(name),)
    if is_file_name(name):
        return _list_files(Path(expand(name)), name)
    kinds = [f"{name}{kind}{packed}" for packed in ("", *COMPRESSED) for kind in (*TEXTS, *TABLES)]
    local_names = KNOWN[name].local_names if name in KNOWN else kinds
    if isinstance(source, Path):
        for local_name in local_names:
            if (path := source / "corpus" / local_name).is_file():
                return (path,)
    if name in KNOWN:
        return KNOWN[name].hub
    files = source.glob("corpus/*") if isinstance(source, Path) else ()
    local = {file.name.partition(".")[0] for file in files if kind_of_file(file.name)}
    names = sorted({"builtin", *KNOWN, *local})
    scope = f"in {source}" if isinstance(source, Path) else "(CSE_DATA or data: may name a folder)"
    raise DataError(
        f"no corpus {name!r} {scope}.{nearest_hint(name, names)} There are: {', '.join(names)}, or "
        "a path to a file"
    )


def _list_files(path: Path, name: str) -> tuple[Path, ...]:
    """Return the path itself if it is a file, else the texts and tables in the folder, sorted by
    name.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        in_sweep = "; a relative path starts at the sweep file's folder" * path.is_absolute()
        hint = nearest_file_hint(path) or in_sweep
        raise DataError(f"corpus {name!r}: no such file or folder{hint}")
    if not (files := files_below(path)):
        endings = ", ".join((*TEXTS, *TABLES))
        raise DataError(f"corpus {name!r}: no file in this folder ends in {endings}")
    return tuple(files)


def read_corpus_file(path: Path, spec: CorpusSpec, *, name: str | None = None) -> CorpusFile:
    """Read the sentences of a text with one a line, or of the columns of a table that `spec` names.

    White space around a sentence is dropped; a line break inside one becomes a space. Notes call
    the file `name`, or by the name of its corpus.

    DataError if the file cannot be read, is a table by its name without a column in `spec`, lacks a
    column, has no row, or has a row that does not consist of sentences; the message names the first
    such line.
    """
    name = name or spec.short_name
    if spec.named_columns:
        return _read_columns(path, spec, name)
    if (kind := kind_of_file(path.name)) not in ("", *TEXTS):
        raise DataError(
            f"{path}: a table by its name, which ends in {kind}; name its column, {{name: "
            f"{path}, column: …}}, or let a text with one sentence a line end in .txt"
        )
    lines = [line.strip() for line in read_lines(path)]
    notes, sample = [], [line for line in lines[:100] if line]
    if sample and all("\t" in line or line[0] + line[-1] == "{}" for line in sample):
        notes.append(
            f"corpus {name} is read as plain text, with one sentence a line; to read it as a "
            f"table, name its column and format: {{name: {path}, column: …, format: …}}"
        )
    rows, dropped = without_empty(lines, path, drop=spec.drop_empty)
    return CorpusFile(rows, dropped, notes)


def without_empty(lines: Sequence[str], path: Path, *, drop: bool) -> tuple[CorpusRows, int]:
    """Make a row of each line with text, and count the empty lines.

    DataError if all lines are empty, or one is and `drop` is False.
    """
    rows: CorpusRows = [(line,) for line in lines if line]
    if not rows:
        raise DataError(f"{path}: no sentences; a corpus holds one sentence a line")
    empty = len(lines) - len(rows)
    if empty and not drop:
        more = f", the first of {empty}" if empty > 1 else ""
        raise DataError(
            f"{path}, line {list(lines).index('') + 1}: empty{more}; remove such lines, or "
            "set drop_empty: true for this corpus"
        )
    return rows, empty


def _read_columns(path: Path, spec: CorpusSpec, name: str) -> CorpusFile:
    columns = spec.named_columns
    labels = () if spec.label is None else (spec.label,)
    table = read_table(path, spec, only=[*map(str, (*columns, *labels)), *spec.where])
    if not table.rows:
        raise DataError(f"{path}: no rows; expected sentences in column {columns[0]!r}")
    if table.names is not None and not isinstance(columns[0], str):
        names = ", ".join(table.names)
        raise DataError(f"{path}: its columns have names, {names}; name one by them")
    selected = table.select((*columns, *labels), spec.where)
    texts = [
        [text.strip().replace("\r\n", " ").replace("\n", " ") for text in texts]
        for index, column in enumerate(columns)
        for texts in [read_texts(selected, index, f"column {column!r}")]
    ]
    numbers = [read_numbers(selected, len(columns), f"label {spec.label!r}") for _ in labels]
    rows = list(zip(*texts, *numbers, strict=True))
    filled = [all(cells[: len(columns)]) for cells in rows]
    read = list(compress(rows, filled))
    if not read:
        raise DataError(f"{path}: no sentences in the columns that are named")
    if (dropped := len(rows) - len(read)) and not spec.drop_empty:
        more = f", the first of {dropped}" if dropped > 1 else ""
        location = selected[filled.index(False)].location
        raise DataError(
            f"{location}: an empty sentence{more}; remove such rows, or set drop_empty: true for "
            "this corpus"
        )
    if table.names is not None or spec.where or isinstance(columns[0], str):
        return CorpusFile(read, dropped)
    first = f"corpus {name} has no header, as its columns are named by numbers: its first line is "
    return CorpusFile(read, dropped, [f"{first}{shorten(read[0][0])}"])
