"""Names in a sweep file that stand for files."""

from pathlib import Path

from cse_methods.files.named import absolute_name, bare_name, is_file_name, kind_of_file


def test_the_kind_of_a_file() -> None:
    table: list[tuple[str, str]] = [
        *(("a.txt", ".txt"), ("a.csv", ".csv"), ("A.TSV", ".tsv"), ("a.parquet", ".parquet")),
        *(("a.jsonl.gz", ".jsonl"), ("a.txt.xz", ".txt"), ("a.csv.zst", ".csv")),
        ("a.v2.csv", ".csv"),
        *((name, "") for name in ("wiki1m", "a.gz", "v1.0", "./folder")),
    ]
    for name, kind in table:
        assert kind_of_file(name) == kind
        assert is_file_name(name) is (bool(kind) or "/" in name)


def test_a_file_without_its_endings_is_called_what_is_no_file() -> None:
    table = [("lab/NLI.csv.gz", "NLI"), ("a.v2.tsv", "a.v2"), ("my.JSONL.XZ", "my")]
    table += [("x.csv.tsv", "x"), ("x.csv.gz.tsv.bz2", "x"), ("my.dat.zst", "my"), ("a/my", "my")]
    for file, name in table:
        assert (bare_name(file), is_file_name(name)) == (name, False)


def test_absolute_names_do_not_change(tmp_path: Path) -> None:
    assert absolute_name(str(tmp_path / "a.csv"), Path("/sweeps")) == str(tmp_path / "a.csv")
    assert absolute_name("~/a.csv", Path("/sweeps")) == str(Path.home() / "a.csv")
    for name in ("stsb", "hf://datasets/lab/nli/train.csv"):
        assert absolute_name(name, tmp_path) == name
