import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failing import failing
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cse_methods.data.own.reading import describe_own_pairs, load_own_pairs, with_checksum
from cse_methods.errors import DataError
from cse_methods.files.cells import NO_TEXTS
from cse_methods.own_pairs import OwnPairs

Rows = list[tuple[str, str, float]]
ROWS: Rows = [(f"猫 {n}, ok", f'Ein "Hund" {n}', n / 2) for n in range(11)]
HEADER = ("sentence1", "sentence2", "score")


def as_csv(rows: Rows, header: tuple[str, ...] = HEADER, **dialect: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, **dialect).writerows([*([header] if header else []), *rows])
    return text.getvalue().encode()


as_tsv = partial(as_csv, delimiter="\t", lineterminator="\n")


def as_unquoted(rows: Rows, header: tuple[str, ...] = HEADER) -> bytes:
    lines = [*([header] if header else []), *rows]
    return "".join("\t".join(map(str, line)) + "\n" for line in lines).encode()


def as_jsonl(rows: Rows) -> bytes:
    return "\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in rows).encode()


def as_parquet(rows: Rows) -> bytes:
    *texts, golds = map(list, zip(*rows, strict=True))
    decimals = pa.array([Decimal(str(gold)) for gold in golds])  # as DuckDB and Spark write them
    table = pa.table(dict(zip(HEADER, [*texts, decimals], strict=True)))
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Rows], bytes]] = {
    **{".csv": as_csv, ".tsv": as_tsv, ".jsonl": as_jsonl, ".parquet": as_parquet}
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., OwnPairs]:
    """Writes a file and names it."""

    def write(content: bytes, name: str = "my.tsv", **stated: Any) -> OwnPairs:
        path = tmp_path / name
        path.write_bytes(content)
        return OwnPairs(file=str(path), **stated)

    return write


def test_columns_are_found_by_usual_names_or_stated(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[tuple[str, ...], Any]] = [
        *(((), None), ((), (1, 2, 3)), (("Sentence_A", "sentence_B", "relatedness_score"), None)),
        (("TEXT1", "text2", "label"), None),
        (("frase", "otra", "nota"), ("frase", "otra", "nota")),
    ]
    plain = load_own_pairs(written(as_tsv(ROWS)))
    with pytest.raises(ValueError, match="each once, got"):
        written(as_tsv(ROWS), columns=("sentence1", "sentence1", "score"))
    for header, columns in table:
        found = load_own_pairs(written(as_tsv(ROWS, header), columns=columns))
        assert found.sha256 == plain.sha256
    # By number, as in the files of STS-B; and a score stands before a label.
    lines = [f"genre\tfile\tyear\t{n}\t{gold}\t{a}\t{b}" for n, (a, b, gold) in enumerate(ROWS)]
    stb = written("\n".join(lines).encode(), columns=(6, 7, 5), format="unquoted")
    found = load_own_pairs(stb)
    assert (found.first[1], found.gold[1]) == ("猫 1, ok", 0.5)
    windows = b"\xef\xbb\xbf" + as_tsv(ROWS).replace(b"\n", b"\r\n")  # a byte order mark, too
    assert load_own_pairs(written(windows)).sha256 == plain.sha256
    labelled = as_jsonl(ROWS).replace(b"{", b'{"label": 1, ')
    assert load_own_pairs(written(labelled, "my.jsonl")).sha256 == plain.sha256


def test_a_scale_is_found_or_stated_and_described(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[Callable[[int], float], str]] = [
        *(
            (lambda n: n / 10, "0 to 1"),
            (lambda n: n / 5 - 1, "-1 to 1"),
            (lambda n: n / 2, "0 to 5"),
        ),
        *((lambda n: 1 + n * 0.4, "1 to 5"), (lambda n: n * 0.3, "0 to 3")),
        (lambda n: n * 10, "0 to 100"),
    ]
    for scores, scale in table:
        spec = written(as_tsv([(a, b, scores(n)) for n, (a, b, _) in enumerate(ROWS)]))
        assert describe_own_pairs(spec).endswith(f"my.tsv, scores {scale} (found)")
        expected = [n / 2 for n in range(11)]
        np.testing.assert_allclose(load_own_pairs(spec).gold, expected, atol=1e-12)
    spec = written(as_tsv(ROWS), scale=(0, 10))
    assert describe_own_pairs(spec).endswith("scores 0 to 10 (stated)")
    assert load_own_pairs(spec).gold[-1] == 2.5


def test_quotes_enclose_cells_unless_the_format_is_unquoted(
    written: Callable[..., OwnPairs],
) -> None:
    """As R and pandas write them: the header too, or not; a quote within twice."""
    plain = load_own_pairs(written(as_tsv(ROWS)))
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC, csv.QUOTE_ALL):
        for header in ((), HEADER):
            spec = written(as_tsv(ROWS, header, quoting=quoting))
            assert load_own_pairs(spec).sha256 == plain.sha256
    assert load_own_pairs(written(as_unquoted(ROWS), format="unquoted")).sha256 == plain.sha256
    some: Any = [('"Oh" and "ah"', '"no"', 1), *ROWS]  # characters of SentEval's sentences
    found = load_own_pairs(written(as_unquoted(some), format="unquoted"))
    assert (found.first[0], found.second[0]) == some[0][:2]
    spanning: Any = [('one\nand "two"', "a\tb", 1), *ROWS]
    for content, name in ((as_tsv(spanning), "my.tsv"), (as_csv(spanning), "my.csv")):
        found = load_own_pairs(written(content, name))
        assert (found.first[0], found.second[0]) == ('one and "two"', "a b")


def test_minus_one_among_labels_is_refused_as_a_score(written: Callable[..., OwnPairs]) -> None:
    def labelled(*labels: float) -> bytes:
        return as_tsv([(a, b, labels[n % len(labels)]) for n, (a, b, _) in enumerate(ROWS)])

    for labels in ((1, 0, -1), (0, 3, 5, -1), (0.5, 0.75, -1.0)):
        with pytest.raises(DataError, match=r"[234] of the 11 scores are -1 .*no label.*scale: \["):
            load_own_pairs(written(labelled(*labels)))
    kept = written(labelled(1, 0, -1) + b"c\td\t1\n" * 3, where={"score": (0, 1)})
    assert load_own_pairs(kept).gold.tolist() == [5, 0, 5, 0, 5, 0, 5, 0, 5, 5, 5]
    for labels, scale in (((1, 0, -1), (-1, 1)), ((1, -1), None), ((1, -0.5, -1), None)):
        assert load_own_pairs(written(labelled(*labels), scale=scale)).gold.min() == 0


def test_format_separator_and_rows_can_be_stated(written: Callable[..., OwnPairs]) -> None:
    plain = load_own_pairs(written(as_tsv(ROWS))).sha256
    semicolons, bars = (as_csv(ROWS, delimiter=";"), as_tsv(ROWS).replace(b"\t", b"||"))
    files: list[tuple[str, bytes, dict[str, Any]]] = [
        ("my.txt", as_tsv(ROWS), {"format": "tsv"}),
        ("my.json", as_jsonl(ROWS), {}),
        ("my.txt", as_csv(ROWS), {"format": "csv"}),
        ("my.tsv", as_csv(ROWS), {"format": "csv"}),
        ("my.csv", as_tsv(ROWS), {"separator": "\t"}),
        ("my.csv", as_tsv(ROWS), {"separator": r"\t"}),  # as in single quotes in YAML
        ("my.txt", bars, {"separator": "||"}),
        ("my.csv", bars, {"separator": "||"}),
        ("my.csv", semicolons, {"separator": ";"}),
        ("my.txt", semicolons, {"separator": ";", "format": "tsv"}),
        (
            "my.txt",
            as_unquoted(ROWS).replace(b"\t", b";"),
            {"separator": ";", "format": "unquoted"},
        ),
    ]
    for name, content, stated in files:
        assert load_own_pairs(written(content, name, **stated)).sha256 == plain, (name, stated)
    with_split: Any = [(*row, part) for row in ROWS for part in ("train", "dev")]
    text = as_tsv(with_split, (*HEADER, "split"))
    assert load_own_pairs(written(text, where={"split": "dev"})).sha256 == plain
    for value in ("test", ("dev", "test")):
        with pytest.raises(DataError, match=r"no row with split: test; there are train, dev"):
            load_own_pairs(written(text, where={"split": value}))


def test_long_cells_are_read_and_other_columns_ignored(written: Callable[..., OwnPairs]) -> None:
    long = [("word " * 40_000, "b", 1.0), *ROWS]
    assert len(load_own_pairs(written(as_csv(long), "my.csv")).first[0]) == 199_999
    indexed: Any = [(n, *row, "") for n, row in enumerate(ROWS)]  # as pandas writes an index
    found = load_own_pairs(written(as_csv(indexed, ("", *HEADER, "note")), "my.csv"))
    assert found.sha256 == load_own_pairs(written(as_tsv(ROWS))).sha256


def test_a_file_that_has_changed_since_is_refused(written: Callable[..., OwnPairs]) -> None:
    held = with_checksum(written(as_tsv(ROWS)))
    assert load_own_pairs(held).sha256 == held.sha256
    Path(held.file).write_bytes(as_tsv([*ROWS[:-1], ("other", "pair", 5.0)]))
    with pytest.raises(DataError, match=f"expected {str(held.sha256)[:12]}"):
        load_own_pairs(held)


TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(texts=st.lists(st.tuples(TEXT, TEXT), min_size=10, max_size=12))
def test_written_pairs_are_read_back_in_every_format(written, texts) -> None:
    assume(NO_TEXTS.isdisjoint(text for pair in texts for text in pair))
    rows = [(a, b, n % 6) for n, (a, b) in enumerate([('Ein "Hund"', "猫, ok"), *texts])]
    found = [
        load_own_pairs(written(write(rows), f"my{ending}")) for ending, write in WRITERS.items()
    ]
    for pairs in found:
        assert (pairs.task, pairs.source, pairs.sha256) == ("my", "file", found[0].sha256)
        assert list(zip(pairs.first, pairs.second, pairs.gold, strict=True)) == rows


def edited(number: int, line: str | bytes) -> bytes:
    """The TSV with another line; the first is 1."""
    lines = as_tsv(ROWS).splitlines()
    other = line.encode() if isinstance(line, str) else line
    return b"\n".join([*lines[: number - 1], other, *lines[number:]])


NUMBER: Any = [*ROWS[:5], ("a", 3, 1.0), *ROWS[5:]]
NULLS: Any = [*ROWS[:5], ("NULL", "b", 1.0), ("nan", "b", 1.0), *ROWS[5:]]
IDS: Any = [(f"q{n}", row[1], row[2]) for n, row in enumerate(ROWS)]
GLUE: Any = [(n, f"id{n}", *row) for n, row in enumerate(ROWS)]
NAMED = r"state columns: .* in a sweep file"
BROKEN: list[tuple[str, bytes, str]] = [
    (
        "my.txt",
        b"a\tb\t1\n",
        r"my\.txt: .*save it as \.csv, \.tsv.*sweep file its format: csv, tsv",
    ),
    *(("my.tsv", as_tsv(ROWS[:n]), rf"{n} pairs, expected at least 10") for n in (1, 9)),
    *(("my.tsv", content, "no rows; expected two") for content in (b"", b"\n\n")),
    ("my.tsv", as_tsv(ROWS, ("a", "b", "c")), rf"line 1: neither a header.*'a', 'b', 'c'; {NAMED}"),
    ("my.tsv", edited(5, "a\tb\thigh"), r"line 5: the score is 'high'"),
    ("my.tsv", edited(5, "a\tb\t4_5"), r"line 5: the score is '4_5'; expected a number"),
    ("my.tsv", edited(5, "a\tb\t４"), r"line 5: the score is '４'; expected a number"),
    ("my.tsv", edited(5, "a\tb\tinf"), r"line 5: the score is 'inf'; expected a number"),
    ("my.tsv", as_tsv([("a", "b", "2,5"), *ROWS], ()), "line 1: the score is '2,5'; write 2.5"),  # type: ignore[list-item]
    ("my.tsv", as_tsv([("a", "b", "75%"), *ROWS], ()), "line 1: the score is '75%'; write 75"),  # type: ignore[list-item]
    ("my.tsv", edited(5, "a\tb\t "), r"line 5: the score is ''; .*leave out pairs"),
    ("my.tsv", edited(5, "a\t \t1"), r"line 5: the second sentence is empty"),
    ("my.csv", as_csv(GLUE, HEADER), r"line 2: 5 cells, but .* 3; .*row\.names = FALSE"),
    ("my.jsonl", as_jsonl(ROWS).replace(b"2.5", b"true"), r"line 6: the score is True"),
    ("my.jsonl", as_jsonl(NUMBER), r"line 6: the second sentence is 3; expected text"),
    (
        "my.tsv",
        as_tsv(NULLS),
        r"line 7: the first sentence is 'NULL', .*2 cells are such as NULL or nan.*; remove",
    ),
    ("my.tsv", as_tsv(IDS), r"line 2: the first sentence is 'q0', .*name a column of text"),
    ("my.tsv", as_tsv(GLUE, ()), r"line 1: .*\(text is in 3 and 4\); state columns: \["),
    ("my.tsv", as_tsv(ROWS, (*HEADER[:2], HEADER[1])), r"line 1: .*'sentence2', 'sentence2'"),
    ("my.tsv", as_tsv([(a, b, 3) for a, b, _ in ROWS]), r"11 pairs has the score 3"),
    (
        "my.tsv",
        as_tsv([(a, b, s - 3) for a, b, s in ROWS]),
        r"from -3 to 2 .*sweep file: .*scale: \[-3, 2\]",
    ),
    (
        "my.csv",
        as_tsv(ROWS),
        r'line 1: .* separated by tabs; save it with commas, or state separator: "\\t" ',
    ),
    (
        "my.tsv",
        as_tsv(ROWS).replace(b"\t", b"||"),
        r'line 1: .*with tabs, or state separator: "\|\|" ',
    ),
    ("my.tsv", edited(5, "a\tb\t1e999"), r"line 5: the score is '1e999'; expected a number$"),
    ("my.jsonl", as_jsonl(ROWS).replace(b"2.5", b"9" * 400), r"line 6: the score is 9+; expected"),
    ("my.jsonl", as_jsonl(ROWS).replace(b"}", b', "score": 1}'), "line 1: the key 'score' stands"),
    ("my.csv", b"sep=;\n" + as_csv(ROWS, delimiter=";"), "line 1: 'sep=;' is for Excel alone; rem"),
    (
        "my.tsv",
        edited(5, "a\t#NAME?\t1"),
        r"line 5: the second sentence is '#NAME\?', which stands",
    ),
]


def test_a_broken_file_is_refused_in_one_sentence(
    written: Callable[..., OwnPairs], tmp_path: Path
) -> None:
    def check(row: tuple[str, bytes, str, dict[str, Any]]) -> None:
        name, content, match, stated = row
        with pytest.raises(DataError, match=match) as caught:
            load_own_pairs(written(content, name, **stated))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)

    header = r"line 1: the score is 'score'.*columns under a header are stated by their names"
    stated: list[tuple[dict[str, Any], str]] = [
        ({"columns": ("sentence1", "sentence2", "scor")}, "no column 'scor'.*Did you mean 'score'"),
        ({"columns": (1, 2, 3)}, header),
        ({"columns": (1, 2, 4)}, r"my\.tsv: no column 4; there are 3"),
        ({"scale": (0, 4)}, "line 11: the score 4.5 is outside the stated scale, 0 to 4"),
    ]
    rows = [(*row, {}) for row in BROKEN]
    rows += [("my.tsv", as_tsv(ROWS), match, own) for own, match in stated]
    assert failing(check, rows) == {}
    with pytest.raises(DataError, match=r"gone\.tsv: no such file of pairs"):
        load_own_pairs(OwnPairs(file=str(tmp_path / "gone.tsv")))
    (tmp_path / "below").mkdir()
    for unfit in ("gone.yaml", "gone.log"):
        (tmp_path / unfit).touch()
    with pytest.raises(DataError, match=r"gone\.tsv: no such file of pairs; name one with two"):
        load_own_pairs(OwnPairs(file=str(tmp_path / "gone.tsv")))
    (near := tmp_path / "gone.csv").touch()
    with pytest.raises(DataError, match=rf"did you mean {re.escape(str(near))}\?"):
        load_own_pairs(OwnPairs(file=str(tmp_path / "below" / ".." / "gone.tsv")))


def test_a_set_has_the_name_that_is_stated(written: Callable[..., OwnPairs]) -> None:
    content = as_tsv(ROWS)
    named = written(content, "dev.tsv").model_copy(update={"name": "my-sts"})
    assert load_own_pairs(named).task == "my-sts"
    assert load_own_pairs(named).sha256 == load_own_pairs(written(content)).sha256
    assert "name" not in written(content).model_dump()  # sweeps of earlier versions are the same
