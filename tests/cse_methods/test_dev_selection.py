from pathlib import Path
from typing import Any

import pytest
from failing import failing
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cse_methods.data.dev_selection import DevSelection, dev_metric
from cse_methods.data.dev_sets import identify_dev_set, load_dev_pairs
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import DataError
from cse_methods.tasks import parse_tasks
from cse_methods.training.dev_evaluation import DevSuite

ROWS = [f"the cat sees dog {n}\ta dog sees cat {n % 4}\t{1 + n % 5}\n" for n in range(12)]


def selected(**dev: Any) -> DevSelection:
    return DevSelection.model_validate(dev)


def test_a_dev_file_is_named_alike_in_every_role() -> None:
    dev = selected(checkpoint="./zh/my-dev.tsv", search="zh//my-dev.tsv", also=["stsb", "b.csv"])
    assert (dev.checkpoint, dev.search, dev.also) == ("my-dev", "my-dev", ("stsb", "b"))
    assert dev.tasks == ("my-dev", "stsb", "b")
    files = {name: own.file for name, own in dev.files.items()}
    assert files == {"my-dev": "./zh/my-dev.tsv", "b": "b.csv"}
    dev = selected(search=["stsb"])
    assert dev == DevSelection()
    assert dev.with_means({"dev/stsb_spearman": 0.5}) == {"dev/stsb_spearman": 0.5}
    # What is hashed stays what it was before there were files.
    roles = [("checkpoint", "stsb"), ("search", "stsb"), ("also", ["sickr"])]
    assert list(dev.names().items()) == roles


ENDINGS = st.lists(
    st.sampled_from([".csv", ".tsv", ".jsonl", ".parquet", ".gz", ".bz2", ".xz", ".zst", ".V2"]),
    min_size=1,
    max_size=4,
)


@given(first=ENDINGS, second=ENDINGS)
def test_a_dev_selection_survives_json(first: list[str], second: list[str]) -> None:
    """A set of whatever file has a name that is read as a name, and never as another file."""
    files = ["./" + "".join(["my", *first]), "hf://datasets/lab/b/" + "".join(["b", *second])]
    stated = {"scale": [1, 7], "where": {"split": ["dev", 1, True]}, "separator": ";"}
    dev = selected(checkpoint={**stated, "file": files[0]}, search="stsb", also=files[1:])
    assert [own.file for own in dev.files.values()] == files
    assert dev.also[0].startswith("b")
    assert DevSelection.model_validate(dev.model_dump(mode="json")) == dev
    assert parse_tasks(list(dev.files), dev.files).own == tuple(dev.files.values())


@pytest.mark.parametrize("role", ["checkpoint", "search"])
def test_a_mean_of_dev_sets_is_the_same_in_any_order(role: str) -> None:
    dev = selected(also=[], **{role: ["./my.tsv", "transfer_dev", "stsb"]})
    assert dev == selected(also=[], **{role: ["stsb", "transfer_dev", "./my.tsv"]})
    assert dev.tasks == ("stsb", "transfer_dev", "my")
    names = {"checkpoint": dev.checkpoint_name, "search": dev.search_name}
    assert names == {"checkpoint": "stsb", "search": "stsb"} | {role: "stsb+transfer_dev+my"}
    scores = {"dev/stsb_spearman": 0.5, "dev/avg_transfer_accuracy": 0.6, "dev/my_spearman": 0.1}
    mean = {"dev/stsb_transfer_dev_my_mean": pytest.approx(0.4)}
    assert dev.with_means(scores) == scores | mean
    assert dev_metric(names[role]) in mean
    assert DevSelection.model_validate(dev.model_dump(mode="json")) == dev


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"search": "./sts12.tsv"}, ["sts12.tsv", "'sts12'", "rename the file"]),
    ({"search": "./dev.tsv"}, ["'dev'", "rename the file", "{file: ./dev.tsv, name: …}"]),
    ({"search": {"file": "a.tsv", "name": "stsb"}}, ["'stsb'", "which has a meaning here"]),
    ({"search": {"file": "a.tsv", "name": "b.tsv"}}, ["'b.tsv'", "no file's ending"]),
    ({"search": {"file": "a.tsv", "columns": ["a", "b"]}}, ["search.columns", "three columns"]),
    ({"also": ["a/my.tsv", "b/my.csv"]}, ["a/my.tsv and b/my.csv", "'my'", "rename one"]),
    (
        {"search": {"file": "my.tsv", "scale": [0, 5]}, "also": ["./my.tsv"]},
        ["my.tsv is named twice", "scale"],
    ),
    ({"search": "./meine Sätze.tsv"}, ["'meine Sätze'", "ASCII letters"]),
    ({"search": {"columns": [1, 2, 3]}}, ["file", "columns, scale"]),
    ({"search": {"file": "my.tsv", "column": [1, 2, 3]}}, ["column", "columns, scale"]),
    ({"search": {"file": "my.tsv", "scale": [5, 0]}}, ["scale", "[5.0, 0.0]"]),
    ({"search": "my"}, ["'my'", "'stsb'", "./my-dev.tsv"]),
    ({"search": []}, ["one or more dev sets"]),
    ({"search": ["stsb", "sickr", "stsb"]}, ["each once", "['stsb', 'sickr', 'stsb']"]),
    ({"search": ["stsb", "sikcr"]}, ["'sikcr'", "'sickr'"]),
    ({"checkpoint": ["stsb", "sikcr"]}, ["'sikcr'", "'sickr'"]),
    ({"checkpoint": []}, ["one or more dev sets"]),
]


def test_unfit_dev_sets_are_refused() -> None:
    def check(row: tuple[dict[str, Any], list[str]]) -> None:
        with pytest.raises(ValidationError) as caught:
            selected(**row[0])
        (problem,) = caught.value.errors()
        assert [word for word in row[1] if word not in problem["msg"]] == []

    assert failing(check, REFUSED) == {}


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "my-dev.tsv"
    path.write_text("".join(ROWS))
    return str(path)


def test_the_identity_of_a_dev_file_is_that_of_its_pairs(own: str, tmp_path: Path) -> None:
    dev = selected(checkpoint=own, search="stsb", also=[])
    known = identify_dev_set(dev, "my-dev", "builtin")
    assert known[0] == "file"
    moved = tmp_path / "there" / "my-dev.csv"
    moved.parent.mkdir()
    moved.write_text("".join(row.replace("\t", ",") for row in ROWS))
    there = selected(checkpoint=str(moved), search="stsb", also=[])
    assert identify_dev_set(there, "my-dev", "builtin") == known
    moved.write_text("".join([*ROWS[1:], ROWS[0]]).replace("\t", ","))
    assert identify_dev_set(there, "my-dev", "builtin") != known


def test_a_file_that_is_a_test_set_by_its_name_is_refused(tmp_path: Path) -> None:
    for name in ("sts-test.tsv", "sts-test.tsv.gz"):
        path = tmp_path / name
        path.write_text("".join(ROWS))
        link = tmp_path / f"my-{name}"
        link.symlink_to(path)
        for file in (path, link):
            dev = selected(search=str(file))
            with pytest.raises(DataError, match="its name is that of a test set"):
                load_dev_pairs(dev, dev.search_name, "builtin")


def test_a_dev_file_is_scored_and_its_geometry_measured(own: str) -> None:
    encoder = load_encoder("mini", pooler="avg")
    alone = DevSuite(selected(checkpoint=own, search=own, also=[]), data="builtin")
    found = alone.evaluate(encoder)
    assert set(found) == {"dev/my-dev_spearman", "dev/alignment", "dev/uniformity"}
    beside = DevSuite(selected(checkpoint=own, search=own, also=["stsb"]), data="builtin")
    both = beside.evaluate(encoder)
    assert both["dev/my-dev_spearman"] == pytest.approx(found["dev/my-dev_spearman"], abs=1e-9)
    stsb = DevSuite(selected(also=[]), data="builtin").evaluate(encoder)
    assert both["dev/uniformity"] == pytest.approx(stsb["dev/uniformity"], abs=1e-6)
    assert both["dev/uniformity"] != pytest.approx(found["dev/uniformity"], abs=1e-3)
    wide = selected(checkpoint={"file": own, "scale": [0, 10]}, search="my-dev", also=[])
    without_alike = DevSuite(wide, data="builtin").evaluate(encoder)
    assert set(without_alike) == {"dev/my-dev_spearman", "dev/uniformity"}  # no alignment


def test_alignment_counts_pairs_above_4_and_not_those_of_exactly_4(tmp_path: Path) -> None:
    encoder, alignments = load_encoder("mini", pooler="avg"), []
    for name, gold in (("four", 4), ("low", 1)):
        file = tmp_path / f"{name}.tsv"
        file.write_text("".join(ROWS).replace("\t4\n", f"\t{gold}\n"))
        dev = selected(checkpoint={"file": str(file), "scale": [0, 5]}, search=name, also=[])
        alignments.append(DevSuite(dev, data="builtin").evaluate(encoder)["dev/alignment"])
    assert alignments[0] == pytest.approx(alignments[1])
