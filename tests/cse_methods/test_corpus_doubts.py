import gzip
import json
from pathlib import Path
from typing import Any

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.doubts import LONG, SAMPLED, corpus_doubts

PLAIN = [f"Sentence number {number} is about the sea ." for number in range(40)]
CHINESE = ["自然语言处理很有意思", "这只猫在图书馆里睡觉"]


def doubts(path: Path, lines: list[str], *, backbone: str = "mini", **spec: Any) -> list[str]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    specs = [CorpusSpec(name=str(path), **spec)]
    return corpus_doubts(load_corpus(specs, "builtin"), backbone=backbone)


def test_nothing_is_said_of_a_plain_corpus_or_an_absent_backbone(tmp_path: Path) -> None:
    assert doubts(tmp_path / "a.txt", PLAIN) == []
    specs = [CorpusSpec(name="builtin")]
    assert corpus_doubts(load_corpus(specs, "builtin"), backbone="mini") == []
    assert doubts(tmp_path / "a.txt", CHINESE, backbone="nobody/nothing") == []


def test_what_is_said(tmp_path: Path) -> None:
    said: list[tuple[list[str], dict[str, Any], str]] = [
        (CHINESE, {}, "of the word pieces of corpus a.txt are unknown to backbone mini"),
        ([*PLAIN, *PLAIN[:5]], {}, "11 % of the 45 sentences of corpus a.txt are duplicates"),
        ([*PLAIN, "so long " * 2000], {}, "1 of the 41 sentences of corpus a.txt is longer than"),
        ([*PLAIN, "", ""], {"drop_empty": True}, "2 of the 42 lines of corpus a.txt are empty"),
        ([*PLAIN, "\u200b"], {}, "such as '\\u200b', have no word piece"),
    ]
    for lines, spec, datum in said:
        (found,) = doubts(tmp_path / "a.txt", lines, **spec)
        assert datum in found


def test_a_table_taken_as_text(tmp_path: Path) -> None:
    content = "".join(f"{line}\n" for line in PLAIN).encode()
    for name, stored in (("a.csv", content), ("a.tsv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(stored)
        specs = [CorpusSpec(name=str(tmp_path / name))]
        (found,) = corpus_doubts(load_corpus(specs, "builtin"), backbone="mini")
        assert f"corpus {name} is read as plain text" in found
        assert f"{{name: {name}, column: …}}" in found


def test_tables_are_known_by_their_content(tmp_path: Path) -> None:
    """Whatever their names: JSON lines, tables in a folder, and one that a bare name finds."""
    data = tmp_path / "corpus"
    data.mkdir()
    lines = [json.dumps({"text": line}) for line in PLAIN]
    commas = ["id,text", *(f"{number},{line}" for number, line in enumerate(PLAIN))]
    for name, rows in {
        "a.json": lines,
        "b.txt": commas,
        "c.txt": [row.replace(",", "\t") for row in commas],
        "d.txt": [f"Well , said {line}" for line in PLAIN],
        "e.csv": commas,
    }.items():
        (data / name).write_text("".join(f"{row}\n" for row in rows))

    def said(name: str) -> list[str]:
        corpus = load_corpus([CorpusSpec(name=name)], str(tmp_path))
        assert all("read as plain text" in note for note in corpus.notes)
        return [note.split()[1] for note in corpus.notes]

    assert said(str(data / "a.json")) == ["a.json"]
    assert said(str(data)) == ["corpus/b.txt", "corpus/c.txt", "corpus/e.csv"]
    assert said("e") == ["e"]
    columns = {"column": "text", "where": {"id": [1, 3]}}
    corpus = load_corpus([CorpusSpec(name="e", **columns)], str(tmp_path))
    assert (corpus.sentences, corpus.notes) == ((PLAIN[1], PLAIN[3]), ())
    specs = [CorpusSpec(name=str(data / "c.txt"), format="tsv", **columns)]
    assert load_corpus(specs, str(tmp_path)).sentences == (PLAIN[1], PLAIN[3])


def test_rows_are_duplicates_as_a_whole_and_every_column_is_looked_at(tmp_path: Path) -> None:
    def of_rows(*lines: str) -> list[str]:
        return doubts(tmp_path / "a.csv", ["x,y", *lines], columns=["x", "y"])

    alike = [f"the same,{line}" for line in PLAIN]
    assert of_rows(*alike) == []
    assert "50 % of the 80 rows" in of_rows(*alike, *alike)[0]
    (found,) = of_rows(*(f"{line},自然语言处理" for line in PLAIN))
    assert "are unknown" in found


def test_a_large_corpus_is_sampled_evenly(tmp_path: Path) -> None:
    """One sentence of three is Chinese, and stands at places that a step of three would miss."""
    lines = [f"{PLAIN[n % 40]} {n}" if n % 3 else f"自然语言处理 {n}" for n in range(4 * SAMPLED)]
    first = doubts(tmp_path / "a.txt", lines)
    assert "are unknown" in first[0]
    assert first == doubts(tmp_path / "a.txt", lines)
    assert max(map(len, lines)) < LONG
