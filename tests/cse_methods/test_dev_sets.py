from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from cse_methods.data.dev_selection import DevTask
from cse_methods.data.dev_sets import DEV_PAIR_FILES, DEV_TABLES, load_dev_set, missing_dev_sets
from cse_methods.data.manifest import manifest
from cse_methods.errors import DataError

TASKS: tuple[DevTask, ...] = ("stsb", "sickr")
Edit = Callable[[list[str]], list[str]]


def row(task: DevTask, number: int, *, gold: str = "2.5", first: str = "") -> str:
    """One line of a task's file, as SentEval's own."""
    first, second = first or f"First  sentence {number} .", f"Second sentence {number} ."
    if task == "stsb":
        return "\t".join(("genre", "file", "year", f"{number:04}", gold, first, second))
    return "\t".join((str(number), first, second, gold, "NEUTRAL"))


def write(folder: Path, task: DevTask, edit: Edit = list, *, end: str = "\n") -> Path:
    """A whole dev file with made-up pairs, edited; the only file of its folder."""
    header = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tjudgment"]
    rows = [row(task, number) for number in range(manifest()[DEV_PAIR_FILES[task].path].records)]
    path = folder / DEV_PAIR_FILES[task].path
    path.parent.mkdir(parents=True)
    lines = edit([*(header if DEV_PAIR_FILES[task].header else []), *rows])
    path.write_bytes("".join(line + end for line in lines).encode())
    return folder


def test_real_dev_files_have_their_known_checksums(shared: Path) -> None:
    stsb, sickr = (load_dev_set(task, str(shared / "data")) for task in TASKS)
    for task, dev, count, lowest in (("stsb", stsb, 1500, 0), ("sickr", sickr, 500, 1)):
        assert (dev.source, dev.sha256) == ("senteval", DEV_PAIR_FILES[task].sha256)
        assert len(dev.first) == len(dev.second) == len(dev.gold) == count
        assert (dev.gold.dtype, dev.gold.max(), dev.gold.min()) == (np.float64, 5, lowest)
    assert stsb.first[0] == "a man with a hard hat is dancing ."
    assert stsb.second[0] == "a man wearing a hard hat is dancing ."
    assert sickr.first[0].startswith("The young boys are playing outdoors")
    assert (stsb.gold[0], sickr.gold[0]) == (5.0, 3.6)


@pytest.mark.parametrize("task", TASKS)
def test_made_up_files_are_read_as_the_real_ones(tmp_path, task, caplog) -> None:
    dev = load_dev_set(task, str(write(tmp_path / "unix", task)))
    assert dev.sha256 != DEV_PAIR_FILES[task].sha256
    assert "not the known pairs" in caplog.text
    assert dev.first[3] == "First sentence 3 ."
    windows = load_dev_set(task, str(write(tmp_path / "windows", task, end="\r\n")))
    assert dev.sha256 == windows.sha256
    unscored = write(tmp_path / "more", task, lambda rows: [*rows, row(task, 9999, gold="")])
    assert "First sentence 9999 ." not in load_dev_set(task, str(unscored)).first


def test_built_in_dev_sets_have_their_sizes_and_are_read_only() -> None:
    stsb, sickr = (load_dev_set(task, "builtin") for task in TASKS)
    assert (stsb.source, len(stsb.gold), len(sickr.gold)) == ("builtin", 400, 250)
    assert len({stsb.sha256, sickr.sha256}) == 2
    assert missing_dev_sets(TASKS, "builtin") == []
    with pytest.raises(ValueError, match="read-only"):
        stsb.gold[0] = 3


def test_dev_sets_of_the_hub_are_listed_as_missing_then_read(kept_from_hub) -> None:
    missing = missing_dev_sets(TASKS, "hub")
    assert missing == ["dev set stsb (mteb/stsbenchmark-sts)", "dev set sickr (RobZamp/sick)"]
    with pytest.raises(DataError, match=r"cannot fetch .* of RobZamp/sick from the hub"):
        load_dev_set("sickr", "hub")
    scores = pa.array([3.7] * 495, pa.float32())
    texts = {"sentence_A": ["A  man ."] * 495, "sentence_B": ["A dog ."] * 495}
    tables = {"sickr": {**texts, "relatedness_score": scores}, "stsb": {"text": ["A man ."]}}
    for task, columns in tables.items():
        parquet.write_table(pa.table(columns), kept_from_hub(DEV_TABLES[task].file))
    dev = load_dev_set("sickr", "hub")
    assert (dev.source, len(dev.gold), dev.first[0], dev.gold[0]) == ("hub", 495, "A man .", 3.7)
    assert missing_dev_sets(TASKS, "hub") == []
    with pytest.raises(DataError, match="no column sentence1, only text; fetch"):
        load_dev_set("stsb", "hub")
