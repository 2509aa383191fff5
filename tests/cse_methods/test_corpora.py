"""Corpora by name: where they come from, and every way a file can be wrong."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import table
from pyarrow.parquet import write_table

from cse_methods.data.corpora import KNOWN, Corpus, load_corpus, missing_corpora
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.source import data_source
from cse_methods.errors import DataError
from cse_methods.files.text import read_lines, sha256_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "tales.txt").write_text("One.\nTwo.\n")
    return tmp_path


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def load(path: Path, content: bytes, *, drop_empty: bool = False) -> Corpus:
    path.write_bytes(content)
    return load_corpus([CorpusSpec(name=str(path), drop_empty=drop_empty)], "builtin")


def test_the_setting_wins_over_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CSE_DATA", raising=False)
    assert data_source(None) == "hub"
    monkeypatch.setenv("CSE_DATA", str(folder))
    assert data_source(None) == folder
    assert data_source("builtin") == "builtin"


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(DataError, match="data: '/no/such' is not a folder; name `builtin`"):
        data_source("/no/such")


def test_a_folder_without_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"CSE_DATA: .* neither downstream/ nor corpus/"):
        data_source(None)


def test_the_first_rows_alone(folder: Path) -> None:
    one = CorpusSpec(name="tales", first=1)
    corpus = load_corpus([one, CorpusSpec(name="tales", first=5)], str(folder))
    assert corpus.sentences == ("One.", "One.", "Two.")
    assert corpus.name == "tales[:1]+tales[:5]"
    assert CorpusSpec.model_validate_json(one.model_dump_json()) == one
    assert "first" not in CorpusSpec(name="tales").model_dump()


def test_builtin() -> None:
    corpus = load_corpus([CorpusSpec(name="builtin")], "builtin")
    assert (corpus.name, len(corpus.sentences)) == ("builtin", 6000)
    assert corpus.sha256 == sha256_of(corpus.sentences)


def test_a_name_is_a_file_of_the_folder(folder: Path) -> None:
    corpus = load_corpus([CorpusSpec(name="tales")], str(folder))
    assert list(corpus.sentences) == ["One.", "Two."]


def test_joined_corpora_follow_each_other(folder: Path) -> None:
    (folder / "corpus" / "more.txt").write_text("Three.\n")
    corpus = load_corpus([CorpusSpec(name="more"), CorpusSpec(name="tales")], str(folder))
    assert (corpus.name, list(corpus.sentences)) == ("more+tales", ["Three.", "One.", "Two."])
    reverse = load_corpus([CorpusSpec(name="tales"), CorpusSpec(name="more")], str(folder))
    assert reverse.sha256 != corpus.sha256


def test_line_ends_and_margins_do_not_matter(tmp_path: Path) -> None:
    plain = load(tmp_path / "a.txt", "Café one.\nTwo.\n".encode())
    windows = load(tmp_path / "b.txt", "\ufeffCafé one.\r\n  Two.\t".encode())
    assert list(windows.sentences) == ["Café one.", "Two."]
    assert plain.sha256 == windows.sha256


def test_only_the_end_of_a_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b" One \r\n\r\nTwo")
    assert read_lines(tmp_path / "a.txt") == [" One ", "", "Two"]


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    assert len(load(tmp_path / "a.txt", "One\u2028still one.\n".encode()).sentences) == 1


def test_the_first_empty_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt, line 2: empty, the first of 2; .*drop_empty"):
        load(tmp_path / "a.txt", b"One.\n \t\r\nTwo.\n\nThree.\n")


def test_empty_lines_are_dropped_and_counted(tmp_path: Path) -> None:
    corpus = load(tmp_path / "a.txt", b"One.\n\nTwo.\n\n", drop_empty=True)
    assert list(corpus.sentences) == ["One.", "Two."]
    assert corpus.dropped == 2


def test_no_sentence_is_refused(tmp_path: Path) -> None:
    for content, drop_empty in ((b"", False), (b"\n \n", False), (b"\n \n", True)):
        with pytest.raises(DataError, match=r"a\.txt: no sentences"):
            load(tmp_path / "a.txt", content, drop_empty=drop_empty)


def test_the_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt, line 3: byte 0xe9 is not UTF-8"):
        load(tmp_path / "a.txt", b"One.\nTwo.\nCaf\xe9.\n")


@pytest.mark.parametrize("file_name", ["wiki1m.txt", "wiki1m_for_simcse.txt"])
def test_wiki1m_of_another_size_is_refused(folder: Path, file_name: str) -> None:
    (folder / "corpus" / file_name).write_text("One.\n")
    match = rf"{file_name}: wiki1m has 1000000 lines, found 1;"
    with pytest.raises(DataError, match=match):
        load_corpus([CorpusSpec(name="wiki1m")], str(folder))
    assert missing_corpora([CorpusSpec(name="wiki1m")], str(folder)) == []


def test_an_unknown_name_gets_a_hint(folder: Path) -> None:
    match = (
        "no corpus 'tails' in .* Did you mean 'tales'. There are: builtin, nli, tales, wiki1m, wiki"
    )
    for use in (load_corpus, missing_corpora):
        with pytest.raises(DataError, match=match):
            use([CorpusSpec(name="tails")], str(folder))


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpus '.*gone\.txt': no such file"):
        missing_corpora([CorpusSpec(name=str(tmp_path / "gone.txt"))], "builtin")


@pytest.mark.usefixtures("no_hub")
def test_wiki1m_is_to_fetch(folder: Path) -> None:
    specs = [CorpusSpec(name="builtin"), CorpusSpec(name="tales"), CorpusSpec(name="wiki1m")]
    expected = ["corpus wiki1m (princeton-nlp/datasets-for-simcse)"]
    assert missing_corpora(specs, str(folder)) == expected
    with pytest.raises(DataError, match=r"cannot fetch wiki1m_for_simcse\.txt .* set data: or CSE"):
        load_corpus(specs, str(folder))


def test_real_corpus(shared: Path) -> None:
    corpus = load_corpus([CorpusSpec(name="wiki1m_slice")], str(shared / "data"))
    assert len(corpus.sentences) == 11914


def test_wikitext103_is_its_paragraphs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["", " = Robert = ", " Robert sings . ", "", " = = Early life = = ", " He = she . "]
    (folder / "corpus" / "wikitext103.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = replace(KNOWN["wikitext103"], lines=6)
    monkeypatch.setitem(KNOWN, "wikitext103", known)
    corpus = load_corpus([CorpusSpec(name="tales"), CorpusSpec(name="wikitext103")], str(folder))
    assert list(corpus.sentences[-2:]) == ["Robert sings .", "He = she ."]
    assert corpus.name == "tales+wikitext103"


def test_wikitext103_is_to_fetch_in_one_line(folder: Path) -> None:
    expected = ["corpus wikitext103 (Salesforce/wikitext)"]
    assert missing_corpora([CorpusSpec(name="wikitext103")], str(folder)) == expected


def test_lines_of_a_parquet_file(tmp_path: Path) -> None:
    file = tmp_path / "train.parquet"
    write_table(table({"text": ["", " a b\n", "c"]}), file)
    assert read_lines(file) == ["", " a b\n", "c"]
    write_table(table({"line": ["a"]}), file)
    with pytest.raises(DataError, match=r"cannot read the column `text` of .*train.parquet"):
        read_lines(file)


def test_a_corpus_is_read_again_only_when_its_file_changed(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("one\ntwo\n")
    specs = (CorpusSpec(name=str(file)),)
    first = load_corpus(specs, "builtin")
    assert load_corpus(specs, "builtin") is first
    file.write_text("one\nthree\n")
    assert list(load_corpus(specs, "builtin").sentences) == ["one", "three"]
