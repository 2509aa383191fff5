import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cse_methods.data.own.reading import describe_own_pairs, load_own_pairs, with_checksum
from cse_methods.data.own.spec import OwnPairs
from cse_methods.errors import DataError

Rows = list[tuple[str, str, float]]
ROWS: Rows = [(f"猫 {n}, ok", f'Ein "Hund" {n}', n / 2) for n in range(11)]
HEADER = ("sentence1", "sentence2", "score")


def as_csv(rows: Rows, header: tuple[str, ...] = HEADER) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([*([header] if header else []), *rows])
    return text.getvalue().encode()


def as_tsv(rows: Rows, header: tuple[str, ...] = HEADER) -> bytes:
    lines = [*([header] if header else []), *rows]
    return "".join("\t".join(map(str, line)) + "\n" for line in lines).encode()


def as_jsonl(rows: Rows) -> bytes:
    return "\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in rows).encode()


def as_parquet(rows: Rows) -> bytes:
    table = pa.table(dict(zip(HEADER, map(list, zip(*rows, strict=True)), strict=True)))
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


def test_columns_are_found_or_stated(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[tuple[str, ...], Any]] = [
        *(((), None), (("Sentence_A", "sentence_B", "relatedness_score"), None)),
        (("TEXT1", "text2", "label"), None),
        *(
            (("frase", "otra", "nota"), columns)
            for columns in (("frase", "otra", "nota"), (1, 2, 3))
        ),
    ]
    plain = load_own_pairs(written(as_tsv(ROWS)))
    for header, columns in table:
        found = load_own_pairs(written(as_tsv(ROWS, header), columns=columns))
        assert found.sha256 == plain.sha256
    # By number, as in the files of STS-B; and a score stands before a label.
    lines = [f"genre\tfile\tyear\t{n}\t{gold}\t{a}\t{b}" for n, (a, b, gold) in enumerate(ROWS)]
    found = load_own_pairs(written("\n".join(lines).encode(), columns=(6, 7, 5)))
    assert (found.first[1], found.gold[1]) == ("猫 1, ok", 0.5)
    windows = b"\xef\xbb\xbf" + as_tsv(ROWS).replace(b"\n", b"\r\n")  # a byte order mark, too
    assert load_own_pairs(written(windows)).sha256 == plain.sha256
    labelled = as_jsonl(ROWS).replace(b"{", b'{"label": 1, ')
    assert load_own_pairs(written(labelled, "my.jsonl")).sha256 == plain.sha256


def test_a_scale_is_found_or_stated_and_said(written: Callable[..., OwnPairs]) -> None:
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


def test_cells_in_quotes_are_read_without_them(written: Callable[..., OwnPairs]) -> None:
    """As R and pandas write them: the header too, or not; a quote within twice or escaped."""
    plain = load_own_pairs(written(as_tsv(ROWS)))
    for within in ('""', '\\"'):
        rows: Any = [
            tuple(f'"{text.replace(chr(34), within)}"' for text in row[:2]) + row[2:]
            for row in ROWS
        ]
        for header in ((), HEADER, tuple(f'"{name}"' for name in HEADER)):
            spec = written(as_tsv(rows, header))
            assert load_own_pairs(spec).sha256 == plain.sha256
            said = describe_own_pairs(spec)
            assert said.endswith("; the quotes around each cell of columns 1, 2 are taken off")
    for stated in ({"columns": HEADER}, {"where": {"score": (0.0, 0.5, 1.0)}, "scale": (0, 5)}):
        bare_scores = as_tsv(rows * 4, tuple(f'"{name}"' for name in HEADER))
        assert load_own_pairs(written(bare_scores, **stated)).gold[:3].tolist() == [0, 0.5, 1]
    some: Any = [('"Oh" and "ah"', '"no"', 1), *ROWS]  # characters of SentEval's sentences
    spec = written(as_tsv(some))
    assert (load_own_pairs(spec).first[0], load_own_pairs(spec).second[0]) == some[0][:2]
    assert describe_own_pairs(spec).endswith("(found)")


def test_minus_one_beside_labels_is_no_score(written: Callable[..., OwnPairs]) -> None:
    def labelled(*labels: float) -> bytes:
        return as_tsv([(a, b, labels[n % len(labels)]) for n, (a, b, _) in enumerate(ROWS)])

    for labels in ((1, 0, -1), (0, 3, 5, -1), (0.5, 0.75, -1.0)):
        with pytest.raises(DataError, match=r"[234] of the 11 scores are -1 .*no label.*scale: \["):
            load_own_pairs(written(labelled(*labels)))
    kept = written(labelled(1, 0, -1) + b"c\td\t1\n" * 3, where={"score": (0, 1)})
    assert load_own_pairs(kept).gold.tolist() == [5, 0, 5, 0, 5, 0, 5, 0, 5, 5, 5]
    for labels, scale in (((1, 0, -1), (-1, 1)), ((1, -1), None), ((1, -0.5, -1), None)):
        assert load_own_pairs(written(labelled(*labels), scale=scale)).gold.min() == 0


def test_a_format_a_separator_and_the_rows_are_stated(written: Callable[..., OwnPairs]) -> None:
    plain = load_own_pairs(written(as_tsv(ROWS))).sha256
    semicolons, bars = (as_tsv(ROWS).replace(b"\t", by) for by in (b";", b"||"))
    files: list[tuple[str, bytes, dict[str, Any]]] = [
        ("my.txt", as_tsv(ROWS), {"format": "tsv"}),
        ("my.json", as_jsonl(ROWS), {}),
        ("my.txt", as_csv(ROWS), {"format": "csv"}),
        ("my.tsv", as_csv(ROWS), {"format": "csv"}),
        ("my.txt", bars, {"separator": "||"}),
        ("my.csv", bars, {"separator": "||"}),
        ("my.csv", semicolons, {"separator": ";"}),
        ("my.txt", semicolons, {"separator": ";", "format": "tsv"}),
    ]
    for name, content, stated in files:
        assert load_own_pairs(written(content, name, **stated)).sha256 == plain, (name, stated)
    with_split = [(*row, part) for row in ROWS for part in ("train", "dev")]
    text = "\n".join("\t".join(map(str, row)) for row in [(*HEADER, "split"), *with_split])
    assert load_own_pairs(written(text.encode(), where={"split": "dev"})).sha256 == plain
    with pytest.raises(DataError, match=r"no row with split: test; there are train, dev"):
        load_own_pairs(written(text.encode(), where={"split": "test"}))


def test_long_cells_and_rows_of_other_widths(written: Callable[..., OwnPairs]) -> None:
    long = [("word " * 40_000, "b", 1.0), *ROWS]
    assert len(load_own_pairs(written(as_csv(long), "my.csv")).first[0]) == 199_999
    plain = load_own_pairs(written(as_tsv(ROWS))).sha256
    wider = as_tsv(ROWS, ()).replace(b"0.0\n", b"0.0\tsource\tlicence\n")  # as in STS-B
    for stated in (None, (1, 2, 3)):
        assert load_own_pairs(written(wider, columns=stated)).sha256 == plain
    unused = as_csv(ROWS, (*HEADER, "comment"))
    for columns in (None, HEADER, (1, 2, 3)):
        assert load_own_pairs(written(unused, "my.csv", columns=columns)).sha256 == plain
    names_of_rows = as_tsv([(str(n), *row) for n, row in enumerate(ROWS)])  # type: ignore[misc]
    with pytest.raises(DataError, match=r"line 1: 3 columns, .* one cell more.*row\.names"):
        load_own_pairs(written(names_of_rows, columns=("sentence1", "sentence2", "score")))


def test_a_file_that_has_changed_since_is_refused(written: Callable[..., OwnPairs]) -> None:
    held = with_checksum(written(as_tsv(ROWS)))
    assert load_own_pairs(held).sha256 == held.sha256
    Path(held.file).write_bytes(as_tsv([*ROWS[:-1], ("other", "pair", 5.0)]))
    with pytest.raises(DataError, match=f"expected {str(held.sha256)[:12]}"):
        load_own_pairs(held)


TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(texts=st.lists(st.tuples(TEXT, TEXT), min_size=10, max_size=12))
def test_what_is_written_is_read_in_every_format(written, texts) -> None:
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
BROKEN: list[tuple[str, bytes, str]] = [
    ("my.txt", b"a\tb\t1\n", r"my\.txt: .*expected \.csv, \.tsv.*format: csv, tsv"),
    *(("my.tsv", as_tsv(ROWS[:n]), rf"{n} pairs, expected at least 10") for n in (0, 9)),
    ("my.tsv", as_tsv(ROWS, ("a", "b", "c")), r"line 1: 'c' .*columns: \["),
    ("my.tsv", edited(5, "a\tb\thigh"), r"line 5: the score is 'high'"),
    ("my.tsv", edited(1, "a\tb\t2,5"), r"line 1: the score is '2,5'; write 2\.5"),
    ("my.tsv", edited(5, "a\tb\t "), r"line 5: the score is ''; .*leave out pairs"),
    ("my.jsonl", as_jsonl(ROWS).replace(b"2.5", b"true"), r"line 6: the score is True"),
    ("my.jsonl", as_jsonl(NUMBER), r"line 6: the second sentence is 3; expected text"),
    ("my.tsv", as_tsv([(a, b, 3) for a, b, _ in ROWS]), r"11 pairs has the score 3"),
    ("my.tsv", as_tsv([(a, b, s - 3) for a, b, s in ROWS]), r"from -3 to 2 .*scale: \[-3, 2\]"),
    ("my.csv", as_tsv(ROWS).replace(b"\t", b";").replace(b",", b""), "';' in a sweep .*commas"),
    ("my.tsv", as_tsv(ROWS).replace(b"\t", b"||"), r"line 1: .*state separator: '\|\|' .*tabs"),
]


def test_a_broken_file_is_one_sentence(written: Callable[..., OwnPairs], tmp_path: Path) -> None:
    for name, content, match in BROKEN:
        with pytest.raises(DataError, match=match) as caught:
            load_own_pairs(written(content, name))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    wide = edited(6, "a\tb\t2\tlicence")
    with pytest.raises(DataError, match=r"line 2: 3 columns, expected at least 4"):
        load_own_pairs(written(wide, columns=(1, 2, 4)))
    stated: list[tuple[dict[str, Any], str]] = [
        ({"columns": ("sentence1", "sentence2", "scor")}, "no column 'scor'.*Did you mean 'score'"),
        ({"columns": (1, 2, 4)}, r"my\.tsv: no column 4; there are 3"),
        ({"scale": (0, 4)}, "line 11: the score 4.5 is outside the stated scale, 0 to 4"),
    ]
    for own, match in stated:
        with pytest.raises(DataError, match=match):
            load_own_pairs(written(as_tsv(ROWS), **own))
    with pytest.raises(DataError, match=r"gone\.tsv: no such file of pairs"):
        load_own_pairs(OwnPairs(file=str(tmp_path / "gone.tsv")))
