import json
import re
from pathlib import Path
from typing import Any

import pytest

from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.doubts import LONG, SAMPLED, corpus_doubts
from cse_methods.errors import DataError

PLAIN = [f"Sentence number {number} is about the sea ." for number in range(40)]
CHINESE = ["自然语言处理很有意思", "这只猫在图书馆里睡觉"]


def doubts(path: Path, lines: list[str], *, backbone: str = "mini", **spec: Any) -> list[str]:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    specs = [CorpusSpec(name=str(path), **spec)]
    return corpus_doubts(load_corpus(specs, "builtin"), backbone=backbone)


def test_a_plain_corpus_and_an_absent_backbone_raise_no_doubts(tmp_path: Path) -> None:
    assert doubts(tmp_path / "a.txt", PLAIN) == []
    specs = [CorpusSpec(name="builtin")]
    assert corpus_doubts(load_corpus(specs, "builtin"), backbone="mini") == []
    assert doubts(tmp_path / "a.txt", CHINESE, backbone="nobody/nothing") == []


def test_each_doubt_is_described_in_a_sentence(tmp_path: Path) -> None:
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


def test_a_table_read_as_text_is_doubted(tmp_path: Path) -> None:
    """A text that looks like a table, and cells that a header or no text may be meant by."""
    tabs = [f"{number}\t{line}" for number, line in enumerate(PLAIN)]
    said: list[tuple[list[str], dict[str, Any], str]] = [
        ([json.dumps({"text": line}) for line in PLAIN], {}, "its column and format: {name: .*a"),
        (["id\ttext", *tabs], {}, "corpus a.txt is read as plain text"),
        ([*PLAIN, "NULL", "nan"], {}, "2 lines of corpus a.txt are such as NULL or nan, read as"),
        (
            [*PLAIN, "Caf\ufffd one."],
            {},
            "1 lines of corpus a.txt have U.FFFD for characters that a",
        ),
        (tabs, {"format": "tsv", "column": 2}, "has no header, .* its first line is 'Sentence num"),
    ]
    for lines, spec, match in said:
        found, *_ = doubts(tmp_path / "a.txt", lines, **spec)
        assert re.search(match, found)
    assert doubts(tmp_path / "a.txt", [*PLAIN, "one\ttab"]) == []
    columns = {"format": "tsv", "column": "text", "where": {"id": [1, 3]}}
    assert doubts(tmp_path / "a.txt", ["id\ttext", *tabs], **columns) == []


def test_a_table_by_its_name_is_not_read_as_text(tmp_path: Path) -> None:
    """A file of a table, one in a folder, and one that a bare name finds, are refused by name."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("One.\n")
    for name in ("e.csv", "e.tsv.gz", "e.jsonl", "e.parquet"):
        file = tmp_path / "corpus" / name
        file.write_bytes(b"text\nOne.\n")
        for corpus in (str(file), str(file.parent), "e"):
            with pytest.raises(DataError, match=rf"{name}: a table by its name, .*column: …"):
                load_corpus([CorpusSpec(name=corpus)], str(tmp_path))
        file.unlink()


def test_duplicates_are_whole_rows_and_every_column_is_inspected(tmp_path: Path) -> None:
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
