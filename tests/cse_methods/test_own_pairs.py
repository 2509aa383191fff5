"""A lab's own pairs: formats, columns and scales that are found; broken files are refused."""

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

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.own.reading import describe_own_pairs, load_own_pairs, with_checksum
from cse_methods.data.own.spec import OwnPairs
from cse_methods.data.source import HubFile
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
    lines = (json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=False) for row in rows)
    return "\n".join(lines).encode()


def as_parquet(rows: Rows) -> bytes:
    columns = zip(HEADER, zip(*rows, strict=True), strict=True)
    sink = io.BytesIO()
    parquet.write_table(pa.table({name: list(cells) for name, cells in columns}), sink)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Rows], bytes]] = {
    ".csv": as_csv,
    ".tsv": as_tsv,
    ".jsonl": as_jsonl,
    ".parquet": as_parquet,
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., OwnPairs]:
    """Writes a file and names it."""

    def write(content: bytes, name: str = "my.tsv", **stated: Any) -> OwnPairs:
        path = tmp_path / name
        path.write_bytes(content)
        return OwnPairs(file=str(path), **stated)

    return write


def test_every_format_holds_the_same_pairs(written: Callable[..., OwnPairs]) -> None:
    for ending in WRITERS:
        pairs = load_own_pairs(written(WRITERS[ending](ROWS), f"my{ending}"))
        assert (pairs.task, pairs.source) == ("my", "file")
        assert (pairs.first[3], pairs.second[3], pairs.gold[3]) == ("猫 3, ok", 'Ein "Hund" 3', 1.5)
        assert pairs.sha256 == load_own_pairs(written(as_csv(ROWS), "my.csv")).sha256


def test_columns_are_found_or_stated(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[tuple[str, ...], Any]] = [
        ((), None),
        (("Sentence_A", "sentence_B", "relatedness_score"), None),
        (("TEXT1", "text2", "label"), None),
        (("frase", "otra", "nota"), ("frase", "otra", "nota")),
        (("frase", "otra", "nota"), (1, 2, 3)),
    ]
    for header, columns in table:
        found = load_own_pairs(written(as_tsv(ROWS, header), columns=columns))
        assert found.sha256 == load_own_pairs(written(as_tsv(ROWS))).sha256


def test_columns_by_number_in_the_layout_of_stsb(written: Callable[..., OwnPairs]) -> None:
    lines = [f"genre\tfile\tyear\t{n}\t{gold}\t{a}\t{b}" for n, (a, b, gold) in enumerate(ROWS)]
    found = load_own_pairs(written("\n".join(lines).encode(), columns=(6, 7, 5)))
    assert (found.first[1], found.gold[1]) == ("猫 1, ok", 0.5)


def test_a_score_stands_before_a_label(written: Callable[..., OwnPairs]) -> None:
    rows = [{"label": 1, "sentence1": a, "sentence2": b, "score": s} for a, b, s in ROWS]
    text = "\n".join(map(json.dumps, rows)).encode()
    assert load_own_pairs(written(text, "my.jsonl")).gold[-1] == 5


def test_a_scale_is_found_and_said(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[Callable[[int], float], str, Callable[[int], float]]] = [
        (lambda n: n / 10, "0 to 1 (found)", lambda n: n / 2),
        (lambda n: n / 5 - 1, "-1 to 1 (found)", lambda n: n / 2),
        (lambda n: n / 2, "0 to 5 (found)", lambda n: n / 2),
        (lambda n: 1 + n * 0.4, "1 to 5 (found)", lambda n: n / 2),
        (lambda n: n * 0.3, "0 to 3 (found)", lambda n: n / 2),
        (lambda n: n * 10, "0 to 100 (found)", lambda n: n / 2),
    ]
    for scores, scale, gold in table:
        spec = written(as_tsv([(a, b, scores(n)) for n, (a, b, _) in enumerate(ROWS)]))
        assert describe_own_pairs(spec).endswith(f"my.tsv, scores {scale}")
        np.testing.assert_allclose(
            load_own_pairs(spec).gold, [gold(n) for n in range(11)], atol=1e-12
        )


def test_a_stated_scale_is_taken(written: Callable[..., OwnPairs]) -> None:
    spec = written(as_tsv(ROWS), scale=(0, 10))
    assert describe_own_pairs(spec).endswith("scores 0 to 10 (stated)")
    assert load_own_pairs(spec).gold[-1] == 2.5


def test_a_byte_order_mark_and_line_ends_do_not_matter(written: Callable[..., OwnPairs]) -> None:
    plain = load_own_pairs(written(as_csv(ROWS), "my.csv")).sha256
    windows = b"\xef\xbb\xbf" + as_csv(ROWS).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert load_own_pairs(written(windows, "my.csv")).sha256 == plain


def test_a_file_that_has_changed_since_is_refused(written: Callable[..., OwnPairs]) -> None:
    held = with_checksum(written(as_tsv(ROWS)))
    assert load_own_pairs(held).sha256 == held.sha256
    Path(held.file).write_bytes(as_tsv([*ROWS[:-1], ("other", "pair", 5.0)]))
    with pytest.raises(DataError, match=f"expected {str(held.sha256)[:12]}"):
        load_own_pairs(held)


def edited(number: int, line: str) -> bytes:
    """The TSV with another line; the first is 1."""
    lines = as_tsv(ROWS).decode().splitlines()
    return "\n".join([*lines[: number - 1], line, *lines[number:]]).encode()


BROKEN: dict[str, tuple[str, bytes, str]] = {
    "no such format": ("my.txt", b"a\tb\t1\n", r"my\.txt: .*expected \.csv, \.tsv"),
    "a header alone": ("my.tsv", as_tsv([]), r"my\.tsv: 0 pairs, expected at least 10"),
    "few pairs": ("my.tsv", as_tsv(ROWS[:9]), r"my\.tsv: 9 pairs, expected at least 10"),
    "a missing column": ("my.tsv", edited(4, "a\tb"), r"line 4: 2 columns, .* has 3"),
    "an unusual header": ("my.tsv", as_tsv(ROWS, ("a", "b", "c")), r"line 1: 'c' .*columns: \["),
    "a word for a score": ("my.tsv", edited(5, "a\tb\thigh"), r"line 5: the score is 'high'"),
    "no score": ("my.tsv", edited(5, "a\tb\t "), r"line 5: the score is ''; .*leave out pairs"),
    "true": ("my.jsonl", as_jsonl(ROWS).replace(b"2.5", b"true"), r"line 6: the score is True"),
    "a number for a sentence": (
        "my.jsonl",
        as_jsonl([*ROWS[:5], ("a", 3, 1.0), *ROWS[5:]]),  # type: ignore[list-item]
        r"line 6: the second sentence is 3; expected text",
    ),
    "one score": ("my.tsv", as_tsv([(a, b, 3) for a, b, _ in ROWS]), r"11 pairs has the score 3"),
    "an unusual scale": (
        "my.tsv",
        as_tsv([(a, b, s - 3) for a, b, s in ROWS]),
        r"from -3 to 2 .*scale: \[-3, 2\]",
    ),
    "Latin-1": (
        "my.tsv",
        edited(7, "caf\xe9\tb\t1").decode().encode("latin-1", "replace"),
        "line 7",
    ),
    "commas in a TSV": ("my.tsv", as_csv(ROWS), r"line 1: separated by commas.* \.csv"),
    "tabs in a CSV": ("my.csv", as_tsv(ROWS), r"line 1: separated by tabs.* \.tsv"),
    "an open quote": ("my.csv", as_csv(ROWS) + b'"a,b,1\n', r"line 13: no CSV .*close each quote"),
    "no JSON": ("my.jsonl", as_jsonl(ROWS) + b"\n{]\n", r"line 12: expected one JSON object"),
    "a key that lacks": (
        "my.jsonl",
        as_jsonl(ROWS) + b'\n{"sentence1": "a", "score": 1}',
        r"line 12: no key 'sentence2'",
    ),
    "no parquet": ("my.parquet", b"PAR", r"my\.parquet: no parquet file"),
}


def test_a_broken_file_is_one_sentence(written: Callable[..., OwnPairs]) -> None:
    for case in BROKEN:
        name, content, match = BROKEN[case]
        with pytest.raises(DataError, match=match) as caught:
            load_own_pairs(written(content, name))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_what_is_stated_wrongly(written: Callable[..., OwnPairs]) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"columns": ("sentence1", "sentence2", "scor")}, "no column 'scor'.*Did you mean 'score'"),
        ({"columns": (1, 2, 4)}, "line 1: no column 4; there are 3"),
        ({"scale": (0, 4)}, "line 11: the score 4.5 is off the stated scale, 0 to 4"),
    ]
    for stated, match in table:
        with pytest.raises(DataError, match=match):
            load_own_pairs(written(as_tsv(ROWS), **stated))


def test_a_file_of_the_hub(kept_from_hub: Callable[[HubFile], Path]) -> None:
    rows = "".join(f"a {n}\tb {n}\t{n % 6}\n" for n in range(12))
    kept_from_hub(HubFile("lab/pairs", "zh/my-dev.tsv", "main")).write_text(rows)
    selection = DevSelection.model_validate({"checkpoint": "hf://datasets/lab/pairs/zh/my-dev.tsv"})
    assert selection.checkpoint == "my-dev"
    pairs = load_own_pairs(selection.files["my-dev"])
    assert (len(pairs.first), pairs.gold.max()) == (12, 5.0)
    with pytest.raises(DataError, match="hf://datasets/OWNER/NAME/FILE"):
        load_own_pairs(OwnPairs(file="hf://lab/pairs"))
    with pytest.raises(DataError, match=r"cannot fetch other\.tsv of lab/pairs"):
        load_own_pairs(OwnPairs(file="hf://datasets/lab/pairs/other.tsv"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.tsv: no such file of pairs"):
        load_own_pairs(OwnPairs(file=str(tmp_path / "gone.tsv")))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(content=st.binary(max_size=200), ending=st.sampled_from(sorted(WRITERS)))
def test_any_bytes_are_read_or_refused_in_one_sentence(
    written: Callable[..., OwnPairs], content: bytes, ending: str
) -> None:
    with pytest.raises(DataError) as caught:
        load_own_pairs(written(content, f"my{ending}"))
    assert "\n" not in str(caught.value)
    assert f"my{ending}" in str(caught.value)


TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(texts=st.lists(st.tuples(TEXT, TEXT), min_size=10, max_size=12))
def test_what_is_written_is_read_in_every_format(
    written: Callable[..., OwnPairs], texts: list[tuple[str, str]]
) -> None:
    rows = [(a, b, n % 6) for n, (a, b) in enumerate(texts)]
    for ending, write in WRITERS.items():
        found = load_own_pairs(written(write(rows), f"my{ending}"))
        assert list(zip(found.first, found.second, strict=True)) == texts
        assert found.gold.tolist() == [row[2] for row in rows]
