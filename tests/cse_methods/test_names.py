from pathlib import Path

from cse_methods.files.named import absolute_name, bare_name, is_file_name, kind_of_file
from cse_methods.names import (
    PAPER_PAGES,
    backbone_name,
    hyperparameter_name,
    method_name,
    paper_page,
    task_name,
)
from cse_methods.registry import get_method, own_methods
from cse_methods.tasks import STS_TASKS, TRANSFER_TASKS, Tasks, parse_tasks


def test_names_are_spelled_as_authors_do() -> None:
    assert method_name("rankcse") == "RankCSE"
    assert task_name("stsb") == "STS-B"
    assert backbone_name("roberta-base") == "RoBERTa-base"
    for named in (method_name, task_name, backbone_name):
        assert named("ours-2") == "ours-2"
    spelled = (
        method_name(name).lower().translate({ord("-"): "", ord("+"): "p"}) for name in own_methods()
    )
    assert set(spelled) == own_methods()
    assert all(method_name(name) != name for name in own_methods() - {"untrained"})
    table = {"gamma": "γ", "tau2": "τ₂", "negative_tau": "negative τ", "d0": "d0"}
    table |= {name: name for name in ("learning_rate", "batch_size", "alphabet")}
    assert {name: hyperparameter_name(name) for name in table} == table


def test_the_page_of_a_source_is_the_paper_of_the_method() -> None:
    for paper, page in PAPER_PAGES.items():
        assert get_method(paper).paper.url == page
    assert paper_page("rankcse table2") == PAPER_PAGES["rankcse"]
    assert paper_page("a lab's own") is None


def test_a_file_name_gives_its_kind_bare_name_and_path(tmp_path: Path) -> None:
    table: list[tuple[str, str]] = [
        *(("a.txt", ".txt"), ("a.csv", ".csv"), ("A.TSV", ".tsv"), ("a.parquet", ".parquet")),
        *(("a.jsonl.gz", ".jsonl"), ("a.txt.xz", ".txt"), ("a.csv.zst", ".csv")),
        ("a.v2.csv", ".csv"),
        *((name, "") for name in ("wiki1m", "a.gz", "v1.0", "./folder")),
    ]
    for name, kind in table:
        assert kind_of_file(name) == kind
        assert is_file_name(name) is (bool(kind) or "/" in name)
    table = [("lab/NLI.csv.gz", "NLI"), ("a.v2.tsv", "a.v2"), ("my.JSONL.XZ", "my")]
    table += [("x.csv.tsv", "x"), ("x.csv.gz.tsv.bz2", "x"), ("my.dat.zst", "my"), ("a/my", "my")]
    for file, name in table:
        assert (bare_name(file), is_file_name(name)) == (name, False)
    assert absolute_name(str(tmp_path / "a.csv"), Path("/sweeps")) == str(tmp_path / "a.csv")
    assert absolute_name("~/a.csv", Path("/sweeps")) == str(Path.home() / "a.csv")
    for name in ("stsb", "hf://datasets/lab/nli/train.csv"):
        assert absolute_name(name, tmp_path) == name


def test_tasks_are_parsed_into_the_papers_order() -> None:
    assert parse_tasks(["sickr", "sts12"]).sts == ("sts12", "sickr")
    assert parse_tasks(["sts"]).sts == STS_TASKS
    everything = parse_tasks(["sts", "transfer", "ranking", "geometry", "long", "stsb"])
    assert everything == Tasks(STS_TASKS, TRANSFER_TASKS, STS_TASKS, True, ("yelp", "imdb"))
    # The shortest words ask for the same.
    for words in (["sts", "mr"], ["sts12", "ranking"], ["geometry", "long"], ["transfer"]):
        tasks = parse_tasks(words)
        assert parse_tasks(tasks.names) == tasks
        assert set(tasks.names) == set(words)
    assert not parse_tasks(["geometry"]).opens_tests
    assert parse_tasks(["geometry", "mr"]).opens_tests
    assert parse_tasks(["ranking"]).opens_tests
    assert parse_tasks(["ranking", "sts12"]).parts == {"ranking", "sts12"}
