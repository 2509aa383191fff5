import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from failing import failing
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow.parquet import write_table

from cse_methods.data.corpora import KNOWN, load_corpus, missing_corpora
from cse_methods.data.corpus import Corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.source import HubFile, data_source
from cse_methods.errors import CseError, DataError
from cse_methods.files.text import read_lines, sha256_of

TABLE = 'id,text\n1,A cat sleeps.\n2,"A dog, old, runs."\n'
SENTENCES = ["A cat sleeps.", "A dog, old, runs."]


def load(path: Path, **spec: Any) -> Corpus:
    return load_corpus([CorpusSpec(name=str(path), **spec)], "builtin")


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zstandard(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard
}  # fmt: skip


TABLES = {
    "a.csv": TABLE,
    "a.tsv": "id\ttext\n1\tA cat sleeps.\n2\tA dog, old, runs.\n",
    "a.jsonl": "".join(json.dumps({"text": one, "n": 1}) + "\n" for one in SENTENCES),
    "a.CSV": '\ufeffid,text\r\n1, A cat sleeps.\r\n\r\n2,"A dog, old, runs. "\r\n',
}


def test_a_column_of_a_table_is_read_as_sentences(tmp_path: Path) -> None:
    for name, content in TABLES.items():
        for packed in PACK if name == "a.csv" else ("",):
            path = written(tmp_path / f"{name}{packed}", PACK[packed](content.encode()))
            corpus = load(path, column="text")
            assert (corpus.name, list(corpus.sentences)) == (path.name, SENTENCES)
            assert corpus.sha256 == sha256_of(SENTENCES)  # as of the same sentences in a text
            assert corpus.columns == ()
    write_table(pyarrow.table({"n": [1, 2], "text": SENTENCES}), tmp_path / "a.parquet")
    assert list(load(tmp_path / "a.parquet", column="text").sentences) == SENTENCES
    path = written(tmp_path / "a.tsv", "1\tA cat sleeps.\n2\tA dog, old, runs.\n")
    assert list(load(path, column=2).sentences) == SENTENCES


def test_a_folder_is_read_file_by_file_sorted_by_name(tmp_path: Path) -> None:
    written(tmp_path / "b.txt", "Three.\n")
    written(tmp_path / "a" / "2.txt.gz", gzip.compress(b"Two.\n"))
    written(tmp_path / "a" / "1.txt", "One.\n")
    for unread in ("README.md", ".b.txt", "a/.ipynb_checkpoints/1-checkpoint.txt", "._b.txt"):
        written(tmp_path / unread, "# not read")
    corpus = load(tmp_path)
    assert list(corpus.sentences) == ["One.", "Two.", "Three."]
    assert corpus.name == tmp_path.name
    for link in (tmp_path / "c", tmp_path / "c.txt"):  # to a folder, to a file that is not there
        link.symlink_to(tmp_path / ("a" if link.suffix == "" else "gone.txt"))
        with pytest.raises(DataError, match=f"{link} is a link to a folder, or to no file; put"):
            load(tmp_path)
        link.unlink()


def test_a_name_finds_a_table_of_the_data_folder(tmp_path: Path) -> None:
    written(tmp_path / "corpus" / "tales.csv.gz", gzip.compress(TABLE.encode()))
    corpus = load_corpus([CorpusSpec(name="tales", column="text")], str(tmp_path))
    assert (corpus.name, list(corpus.sentences)) == ("tales", SENTENCES)
    with pytest.raises(DataError, match="Did you mean 'tales'"):
        load_corpus([CorpusSpec(name="talse")], str(tmp_path))


@pytest.mark.parametrize("pinned", ["", "@v2"])
def test_a_file_of_the_hub_is_fetched_and_read(
    pinned: str, kept_from_hub: Callable[[HubFile], Path]
) -> None:
    address = f"hf://datasets/lab/tales{pinned}/data/train.csv"
    spec = CorpusSpec(name=address, column="text")
    assert missing_corpora([spec], "hub") == [f"corpus {address} (lab/tales)"]
    written(kept_from_hub(HubFile("lab/tales", "data/train.csv", pinned[1:] or "main")), TABLE)
    assert missing_corpora([spec], "hub") == []
    corpus = load_corpus([spec], "hub")
    assert (corpus.name, list(corpus.sentences)) == ("train.csv", SENTENCES)
    for name in ("https://lab.org/a.csv", "hf://datasets/lab/a.csv"):
        with pytest.raises(DataError, match="is not a file of the hub"):
            load_corpus([CorpusSpec(name=name)], "hub")


def test_several_columns_are_read_row_by_row(tmp_path: Path) -> None:
    rows = [("A man sings.", "A person sings.", "Nobody sings."), ("a\tb", 'c"', "d\ne")]
    text = "".join(json.dumps(dict(zip("xyz", row, strict=True))) + "\n" for row in rows)
    path = written(tmp_path / "a.jsonl", text)
    corpus = load(path, columns=["x", "z"])
    assert corpus.columns == (("A man sings.", "a\tb"), ("Nobody sings.", "d e"))
    assert corpus.sentences == corpus.columns[0]
    assert corpus.sha256 != load(path, columns=["z", "x"]).sha256
    assert len(load(path, columns=["x", "y", "z"]).columns) == 3
    path = written(tmp_path / "a.csv", "x,y\na,b\n ,c\nd,\ne,f\n")
    corpus = load(path, columns=["x", "y"], drop_empty=True)
    assert (corpus.columns, corpus.dropped) == ((("a", "e"), ("b", "f")), 2)


def test_nli_is_refused_unless_it_has_its_known_size(tmp_path: Path) -> None:
    written(tmp_path / "corpus" / "nli.csv", "sent0,sent1,hard_neg\na,b,c\n")
    columns = ("sent0", "sent1", "hard_neg")
    for spec, datum in (
        (CorpusSpec(name="nli"), r"columns: \[sent0, sent1, hard_neg\]"),
        (CorpusSpec(name="nli", columns=columns), "nli has 275601 lines, found 1"),
    ):
        with pytest.raises(DataError, match=datum):
            load_corpus([spec], str(tmp_path))
    assert KNOWN["nli"].columns == columns


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", content)
    return file.getvalue()


def tarred(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


ARCHIVES = {"zip": zipped(b"One.\n"), "tar": tarred(b"One.\n")}
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"
TEXT = {"column": "text"}
BROKEN: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("a.csv", TABLE, {"column": "texts"}, "no column 'texts'; there are id, text. Did"),
    ("a.csv", TABLE, {"column": 3}, "no column 3; there are 2"),
    ("a.csv", "", TEXT, "a.csv: no rows"),
    ("a.csv", "text\n", TEXT, "no sentences"),
    ("a.csv", "id,text\n1,\n2,b\n", TEXT, "line 2: an empty sentence; remove"),
    ("a.csv", "id,text\n1,a\n2,b, c\n", TEXT, "line 3: 3 cells, but the first row has 2"),
    ("a.csv", "Hello, world\nOne.\nTwo.\n", {"column": 1}, "line 2: 1 cells, but the first row"),
    ("a.csv", "id;text\n1;a\n", TEXT, "line 1: 'id;text' is separated by semicolons; save"),
    ("a.csv", "id\ttext\tx\n1\ta\tb\n", TEXT, "separated by tabs; save it with commas, or state"),
    ("a.tsv", TABLE, TEXT, "separated by commas; save it with tabs, or state separator: \",\""),
    ("a.csv", 'id,text\n1,"a\n2,b\n', TEXT, "line 2: a quote that no other closes"),
    ("a.csv", 'id,text\n\n1,"a\nb"\n2,"c"d\n', TEXT, "line 5: a quote inside a cell"),
    ("a.csv", 'id,text\n1,a "b"\n', TEXT, 'line 2: a quote inside a cell; put the cell in quotes'),
    ("a.csv", 'id, text\n1, "a, b"\n', TEXT, "line 2: a blank before the quote of a cell; remove"),
    ("a.csv", 'id,text\n1,"a \\"b\\""\n', TEXT, "line 2: a backslash before a quote; write"),
    ("a.csv", "id,text\n1,a \\\"b\n", TEXT, "line 2: a backslash before a quote; write"),
    ("a.tsv", 'id\ttext\n1\t"a\n2\tb"\n', TEXT, "line 2: a quote that no other closes"),
    *(
        (file, f'id{mark}text\n1{mark}"a" b\n', TEXT, f", format: unquoted{also}}} if quotes")
        for file, mark, also in (("a.tsv", "\t", ""), ("a.csv", ",", ', separator: ","'))
    ),
    ("a.csv", "id,text,text\n1,a,b\n", TEXT, "line 1: 2 columns are called 'text'; give each"),
    ("a.csv", "id,text\nq1,a\nq2,b\n", {"column": "id"}, "line 2: column 'id' is 'q1', and a num"),
    ("a.csv", "id,text\n1,a\n2,None\n", TEXT, "line 3: column 'text' is 'None', which stands"),
    ("a.csv", b"id,text\n1,Caf\xe9\n", TEXT, "line 2: byte 0xe9 is not UTF-8; convert the file to"),
    *(
        (name, "id,text\n1,a\n".encode(encoding), spec, "is UTF-16 or UTF-32; convert it to UTF-8")
        for name, spec in (("a.csv", TEXT), ("a.txt", {}))
        for encoding in ("utf-16", "utf-32")
    ),
    ("a.txt", "One.\n".encode("utf-16-le"), {}, "line 1: a NUL, which no text has; remove it, or"),
    ("a.txt", "One.\nTw\0o.\n", {}, "line 2: a NUL"),
    ("a.txt", "One.\n猫\n".encode("iso2022_jp"), {}, "line 2: an escape character, as of ISO"),
    ("a.jsonl", '{"text": "a\\u0000"}\n', TEXT, "line 1: column 'text' is 'a\\x00'; expected text"),
    ("a.csv", b"PAR1", TEXT, "is a .parquet file; let its name end in .parquet"),
    ("a.parquet", gzip.compress(b"PAR1"), TEXT, "is a .gz file; let its name end in .gz, once"),
    ("a.txt", "One.\rTwo.\r", {}, "line 1: ends in \\r alone, as lines of old Macs do; save"),
    ("a.txt", "One.\r\nTwo.\rThree.\n", {}, "line 2: ends in \\r alone"),
    ("a.csv", "id,text\r1,a\r", TEXT, "line 1: ends in \\r alone"),
    ("a.txt", "\ufeffOne.\n\ufeffTwo.\n", {}, "line 2: begins with a byte order mark"),
    ("a.csv", "\ufeff\ufeffid,text\n1,a\n", TEXT, "line 1: begins with a byte order mark"),
    *(
        (name, POINTER, spec, "is a pointer of git-lfs, not the file; run `git lfs pull`")
        for name, spec in (("a.txt", {}), ("a.csv", TEXT), ("a.jsonl", TEXT), ("a.parquet", TEXT))
    ),
    *(
        ("a.txt", content, {}, says)
        for content, says in {
            "<!DOCTYPE html>\n<p>One.</p>\n": "is a page of the web",
            "\ufeff<!DOCTYPE html>\n<p>One.</p>\n": "is a page of the web",
            "<!-- saved -->\n<html>\n": "is a page of the web",
            "<?xml version='1.0'?>\n<s>One.</s>\n": "or XML",
            f"\ufeff{POINTER}": "is a pointer of git-lfs",
            "/annex/objects/SHA256E-s12--00.txt\n": "is a pointer of git-annex",
            "{\\rtf1\\ansi\nOne.\\\n}\n": "is a document of Office, RTF or PDF",
            "%PDF-1.4\n1 0 obj\n": "is a document",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0": "is a document",
            b"ARROW1\0\0\xff\xff": "is data of Arrow",
        }.items()
    ),
    ("a.txt", ARCHIVES["zip"], {}, "is a zip archive"),
    ("a.csv", ARCHIVES["zip"], TEXT, "is a zip archive"),
    ("a.txt.gz", gzip.compress(ARCHIVES["tar"]), {}, "is a tar archive; unpack it"),
    ("a.txt", ARCHIVES["tar"], {}, "is a tar archive"),
    *(
        (name, pack(b"One.\n"), {}, f"is a {ending} file; let its name end in {ending}, once")
        for ending, pack in PACK.items()
        for name in ("a.txt", f"a.txt.{'xz' if ending == '.gz' else 'gz'}")
        if ending
    ),
    ("a.txt.gz", gzip.compress(gzip.compress(b"One.\n")), {}, "is a .gz file; let its name"),
    ("a.csv", "One, two.\n", {}, "a table by its name, which ends in .csv; name its column, {name"),
    ("a.json", '{"text": "a"}\n', {}, "a table by its name, which ends in .json; name its column"),
    ("a.parquet", b"", {}, "a table by its name"),
    ("a.jsonl", '{"text": "a"}\n{"text": "b \\ud83d"}\n', TEXT, "line 2: half an emoji (\\ud83d)"),
    ("a.json", '[{"text": "a"}]\n', TEXT, "line 1: expected one JSON object a line, got"),
    ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', TEXT, "line 2: no key 'text'; there are txt"),
    ("a.jsonl", '{"text": "a"}\n{"text": 7}\n', TEXT, "line 2: column 'text' is 7; expected text"),
    ("a.jsonl", '{"text": "a"}\n{"text": null}\n', TEXT, "line 2: an empty sentence"),
    ("a.jsonl", '{"text": "a"}\n["b"]\n', TEXT, "line 2: expected one JSON object"),
    ("a.jsonl", '{"text": "a"}\n{"text":\n', TEXT, "line 2: expected one JSON object"),
    ("a.jsonl", '{"text": "a"}\n', {"column": 1}, "its columns have names, text"),
    ("a.parquet", b"PAR1 no", TEXT, "no Parquet file that can be read"),
    ("a.txt", "One.\n", TEXT, ".parquet; or state in a sweep file its format: csv, tsv, unquoted"),
    ("a.txt", "One.\n\nTwo.\n", {}, "line 2: empty; remove"),
    ("a.txt", "One.\n \t\r\nTwo.\n\nThree.\n", {}, "a.txt, line 2: empty, the first of 2; "),
    ("a.txt", "", {}, "no sentences"),
    ("a.txt", "\n \n", {}, "no sentences"),
    ("a.txt", "\n \n", {"drop_empty": True}, "no sentences"),
    ("a.txt", b"One.\nTwo.\nCaf\xe9.\n", {}, "line 3: byte 0xe9 is not UTF-8"),
    ("a.txt.gz", b"no gzip", {}, "incomplete .gz file"),
    ("a.txt.gz", gzip.compress(b"One.\n" * 99, mtime=0)[:-9], {}, "incomplete .gz file"),
    ("a.txt.bz2", b"no bzip", {}, "incomplete .bz2 file"),
    ("a.txt.bz2", bz2.compress(b"One.\n" * 99)[:-9], {}, "incomplete .bz2 file"),
    ("a.txt.xz", b"no xz", {}, "incomplete .xz file"),
    ("a.txt.xz", lzma.compress(b"One.\n" * 99)[:-9], {}, "incomplete .xz file"),
    ("a.txt.zst", b"no zstd", {}, "incomplete .zst file"),
    ("a.csv.gz", gzip.compress(b"id,text\n1\n", mtime=0), TEXT, "line 2: 1 cells, but the")
]  # fmt: skip


@example(content=b",", name="a.txt", spec={})  # a table without a row
@given(
    content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
    name=st.sampled_from([f"a{kind}{packed}" for kind in (".txt", ".csv", ".tsv", ".jsonl",
                          ".parquet") for packed in ("", ".gz", ".xz", ".zst")]),
    spec=st.sampled_from([{}, {"column": "text"}, {"column": 1}, {"columns": ["a", "b"]}])
)  # fmt: skip
def test_any_bytes_are_read_as_sentences_or_refused_as_data(
    content, name, spec, tmp_path_factory
) -> None:
    path = written(tmp_path_factory.mktemp("corpus") / name, content)
    try:
        corpus = load(path, **spec)
    except CseError as error:
        assert str(path) in str(error)
    else:
        assert all(corpus.sentences)


def test_missing_columns_and_broken_files_are_refused(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"column": "a", "columns": ["a", "b"]}, "excludes 'column'"),
        ({"columns": ["a"]}, "two columns or more"),
        ({"columns": ["a", "a"]}, "two columns or more"),
        ({"columns": ["a", 2]}, "all names or all numbers"),
        ({"columns": ["a", "b"], "split_at": 32}, "cuts single sentences"),
        ({"where": {"split": "train"}}, "applies to tables; also name its column:"),
    ]
    for spec, datum in refused:
        with pytest.raises(ValueError, match=datum):
            CorpusSpec(name="a.csv", **spec)

    def check(row: tuple[int, tuple[str, str | bytes, dict[str, Any], str]]) -> None:
        number, (name, content, spec, datum) = row
        path = written(tmp_path / str(number) / name, content)
        with pytest.raises(DataError) as caught:
            load(path, **spec)
        message = str(caught.value)
        assert str(path) in message and datum in message and "\n" not in message, message

    assert failing(check, enumerate(BROKEN)) == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "tales.txt").write_text("One.\nTwo.\n")
    return tmp_path


def test_data_comes_from_the_setting_else_the_environment_else_the_hub(
    folder, tmp_path_factory, monkeypatch
) -> None:
    """The setting wins over the environment."""
    assert data_source(None) == "hub"
    monkeypatch.setenv("CSE_DATA", str(folder))
    assert data_source(None) == folder
    assert data_source("builtin") == "builtin"
    with pytest.raises(DataError, match="data: '/no/such' is not a folder; name `builtin`"):
        data_source("/no/such")
    monkeypatch.setenv("CSE_DATA", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(DataError, match=r"CSE_DATA: .* neither downstream/ nor corpus/"):
        data_source(None)


def test_first_reads_only_so_many_rows(folder: Path) -> None:
    one = CorpusSpec(name="tales", first=1)
    corpus = load_corpus([one, CorpusSpec(name="tales", first=5)], str(folder))
    assert corpus.sentences == ("One.", "One.", "Two.")
    assert corpus.name == "tales[:1]+tales[:5]"
    assert CorpusSpec.model_validate_json(one.model_dump_json()) == one


def test_line_ends_and_margins_are_dropped_and_empty_lines_on_request(tmp_path: Path) -> None:
    plain = load(written(tmp_path / "a.txt", "Café one.\nTwo.\n"))
    windows = load(written(tmp_path / "b.txt", "\ufeffCafé one.\r\n  Two.\t"))
    assert list(windows.sentences) == ["Café one.", "Two."]
    assert plain.sha256 == windows.sha256
    corpus = load(written(tmp_path / "a.txt", "One.\n\nTwo\u2028still two.\n\n"), drop_empty=True)
    assert list(corpus.sentences) == ["One.", "Two\u2028still two."]  # only line feeds end a line
    assert corpus.dropped == 2


@pytest.mark.parametrize("file_name", ["wiki1m.txt", "wiki1m_for_simcse.txt"])
def test_wiki1m_of_another_size_is_refused(folder: Path, file_name: str) -> None:
    (folder / "corpus" / file_name).write_text("One.\n")
    match = rf"{file_name}: wiki1m has 1000000 lines, found 1;"
    with pytest.raises(DataError, match=match):
        load_corpus([CorpusSpec(name="wiki1m")], str(folder))
    assert missing_corpora([CorpusSpec(name="wiki1m")], str(folder)) == []


def test_missing_corpora_are_those_that_must_be_fetched(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    specs = [CorpusSpec(name=name) for name in ("builtin", "tales", "wiki1m", "wikitext103")]
    assert missing_corpora(specs, str(folder)) == [
        "corpus wiki1m (princeton-nlp/datasets-for-simcse)",
        "corpus wikitext103 (Salesforce/wikitext)",
    ]
    with pytest.raises(DataError, match=r"cannot fetch wiki1m_for_simcse\.txt .* set data: or CSE"):
        load_corpus(specs, str(folder))


def test_wikitext103_has_its_paragraphs_without_headings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["", " = Robert = ", " Robert sings . ", "", " = = Early life = = ", " He = she . "]
    (folder / "corpus" / "wikitext103.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = replace(KNOWN["wikitext103"], lines=6)
    monkeypatch.setitem(KNOWN, "wikitext103", known)
    corpus = load_corpus([CorpusSpec(name="tales"), CorpusSpec(name="wikitext103")], str(folder))
    assert list(corpus.sentences[-2:]) == ["Robert sings .", "He = she ."]
    assert corpus.name == "tales+wikitext103"


def test_a_text_and_a_parquet_file_give_the_same_lines(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "a.txt", " One \r\n\r\nTwo")) == [" One ", "", "Two"]
    file = tmp_path / "train.parquet"
    write_table(pyarrow.table({"text": ["", " a b\n", "c"]}), file)
    assert read_lines(file) == ["", " a b\n", "c"]
    write_table(pyarrow.table({"line": ["a"]}), file)
    with pytest.raises(DataError, match=r"no column text, only line; .* name the column"):
        read_lines(file)


def test_a_corpus_is_read_again_only_when_its_file_changed(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("one\ntwo\n")
    specs = (CorpusSpec(name=str(file)),)
    first = load_corpus(specs, "builtin")
    assert load_corpus(specs, "builtin") is first
    file.write_text("one\nthree\n")
    assert list(load_corpus(specs, "builtin").sentences) == ["one", "three"]
