import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
import ray
from commands import invoke
from own_tasks import write_folder
from sweeps import CHEAP, write_sweep

from cse_platform.cli.sweep import main
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep import bundle
from cse_platform.sweep.bundle import SWEEP_FILE, SweepBundle, pack_sweep
from cse_platform.sweep.file import load_sweep
from cse_platform.tracking.journal import Journal

PAIRS = "sentence1\tsentence2\tscore\na cat\ta dog\t2.5\n"


def packed(folder: Path, *overrides: str, **changes: Any) -> SweepBundle:
    return pack_sweep(write_sweep(folder, CHEAP, **changes).file, list(overrides))


def sweep_in(one: SweepBundle) -> Mapping[str, Any]:
    text = one.content[SWEEP_FILE]
    assert isinstance(text, str)
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_file_is_resolved_and_its_own_sets_go_with_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file, beside = tmp_path / "my-dev.tsv", tmp_path / "corpus.txt"
    file.write_text(PAIRS)
    beside.write_text("a cat\n")
    folder = tmp_path / "sub"
    dev = {"checkpoint": "../my-dev.tsv", "search": "../my-dev.tsv"}
    corpus = ["builtin", "../corpus.txt", "/cluster/other.txt"]
    one = packed(folder, "search.trials=7", dev=dev, corpus=corpus)
    sent = sweep_in(one)
    assert sent["search"]["trials"] == 7
    assert sent["corpus"][0] == "builtin" and sent["corpus"][2] == "/cluster/other.txt"
    assert sent["dev"]["checkpoint"] == sent["dev"]["search"]
    files = {name: place for name, place in one.content.items() if name != SWEEP_FILE}
    named = {sent["dev"]["checkpoint"], sent["corpus"][1]}
    assert {Path(str(place)).resolve() for place in files.values()} == {file, beside}
    assert set(files) == named
    assert {Path(name).name for name in named} == {"my-dev.tsv", "corpus.txt"}
    assert one.name == "tiny"


def test_a_folder_of_a_retrieval_set_travels_with_what_is_read_of_it(tmp_path: Path) -> None:
    write_folder(tmp_path / "faq")
    (tmp_path / "faq/notes.txt").write_text("a secret\n")
    faq = {"retrieval": "./faq"}
    one = packed(tmp_path, dev={"checkpoint": faq, "search": faq, "also": []})
    place = sweep_in(one)["dev"]["search"]["retrieval"]
    read = ("corpus.jsonl", "queries.jsonl", "qrels/dev.tsv")
    assert one.content.keys() - {SWEEP_FILE} == {f"{place}/{name}" for name in read}


def test_stores_without_a_password_travel_and_nothing_else_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "stores.env").write_text("CSE_STORE=postgresql+psycopg://lab:secret@db/x")
    stores = {"mlflow": "http://mlflow.lab:5000"}
    one = packed(tmp_path, stores=stores)
    assert list(one.content) == [SWEEP_FILE]
    assert sweep_in(one)["stores"] == stores


def test_what_holds_a_secret_is_refused(tmp_path: Path) -> None:
    for changes, named in (
        ({"stores": {"leaderboard": "postgresql://lab:hunter2@db/x"}}, "stores.leaderboard"),
        ({"stores": {"mlflow": "https://lab:hunter2@mlflow.lab"}}, "stores.mlflow"),
        ({"notify": ["slack://hunter2/TOKEN-B/TOKEN-C"]}, "notify"),
    ):
        with pytest.raises(SweepRefusedError) as refused:
            packed(tmp_path, **changes)
        assert str(refused.value).startswith(named) and "hunter2" not in str(refused.value)


def test_files_that_cannot_travel_are_refused(tmp_path, monkeypatch) -> None:
    dev = {"checkpoint": "./my-dev.tsv", "search": "./my-dev.tsv"}
    with pytest.raises(SweepRefusedError, match=r"my-dev\.tsv: no such file here"):
        packed(tmp_path, dev=dev)
    (tmp_path / "my-dev.tsv").write_text(PAIRS)
    monkeypatch.setattr(bundle, "LARGEST", 10)
    with pytest.raises(SweepRefusedError, match="absolute path there"):
        packed(tmp_path, dev=dev)


def test_a_value_that_an_earlier_stage_finds_is_found_where_the_file_runs(tmp_path: Path) -> None:
    early = CHEAP | {"sweep": "early"}
    late = CHEAP | {"sweep": "late", "space": {"kind": ["a", "b"]}}
    late |= {"fixed": {"temperature": {"best_of": "early"}}}
    file = tmp_path / "stages.yaml"
    file.write_text(json.dumps({"stages": [early, late]}))
    one = pack_sweep(file, [])
    assert sweep_in(one)["stages"][1]["fixed"] == {"temperature": {"best_of": "early"}}
    sent = tmp_path / "there.yaml"
    sent.write_text(str(one.content[SWEEP_FILE]))
    assert load_sweep(sent).stages == one.sweeps.stages


Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Runs a sweep with changes; gives the sentence that the command says."""

    def run(*, runs: Path = tmp_path / "runs", **changes: Any) -> str:
        sweep = write_sweep(tmp_path, CHEAP, **changes)
        result = invoke(main, sweep.file, "--runs", runs, code=1)
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.stderr
        assert not ray.is_initialized()
        return " ".join(result.stderr.split())

    return run


NO_SERVER = "postgresql+psycopg://me:secret@127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("store", "url"),
    [
        (store, url)
        for store in ("leaderboard", "search", "mlflow")
        for url in ("mongodb://me:secret@here/db", "no url", NO_SERVER)
        if store == "leaderboard" or url != NO_SERVER  # others may be down: the sweep goes on
    ],
)
def test_wrong_database(refused: Refused, store: str, url: str) -> None:
    line = refused(stores={store: url})
    assert "secret" not in line
    assert store in line.lower() or "127.0.0.1:1" in line


def test_sweep_that_runs_already(refused: Refused, tmp_path: Path) -> None:
    with Journal(tmp_path / "runs" / "sweeps" / "tiny" / "journal.jsonl"):
        assert re.search("in use by process .* end it with cse-sweep stop tiny$", refused())
