"""What a machine has of all that a sweep's trials need, and in another way than the driver."""

import re
from pathlib import Path

import pytest
from ray.exceptions import RuntimeEnvSetupError

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_platform.runner.cluster.checks import explain_no_answer
from cse_platform.runner.cluster.facts import (
    Fact,
    NodeQuestions,
    compare_facts,
    find_facts,
    why_no_trials,
    write_mark,
)

GONE = "/not/there"


@pytest.fixture
def asked(tmp_path: Path) -> NodeQuestions:
    return NodeQuestions(
        method="simcse",
        corpus=(CorpusSpec(name="builtin"),),
        data="builtin",
        dev=DevSelection(),
        encoders=("mini", GONE),
        files=(f"{GONE}.txt",),
        settings=(),
        storage=str(tmp_path / "nodes"),
    )


def test_storage_is_the_same_where_the_driver_s_word_can_be_read(asked, tmp_path) -> None:
    name = f"the storage {tmp_path}"
    assert find_facts(asked)[name].value is None
    write_mark(asked.storage)
    first = find_facts(asked)[name].value
    assert first and find_facts(asked)[name].value == first
    assert [file.name for file in tmp_path.iterdir()] == ["nodes"]  # what it writes, it deletes
    write_mark(asked.storage)
    assert find_facts(asked)[name].value != first


def test_whatever_is_not_there_has_a_problem_and_hides_nothing_else(asked) -> None:
    facts = find_facts(asked)
    lacking = {name for name, fact in facts.items() if fact.value is None}
    assert {f"the encoder {GONE}", f"the file {GONE}.txt"} < lacking
    assert all(facts[name].problem for name in lacking)
    there = {"Python", "torch", "the method simcse", "the corpus", "the dev set stsb"}
    assert there | {"the encoder mini", "the code of cse_methods.papers.simcse"} < facts.keys()
    assert not lacking & there


def test_a_node_that_cannot_answer_gets_a_reason() -> None:
    no_wheel = RuntimeEnvSetupError("pip\nERROR: no wheel\n")
    for error, lacks, says in (
        (no_wheel, "numpy 2.0", "numpy 2.0,.*[(]no wheel[)]"),
        (RuntimeEnvSetupError("no agent"), "", "code .*[(]no agent[)]"),
        (ImportError("no cse_platform"), "", "no cse_platform; install cse-platform "),
    ):
        assert re.search(says, explain_no_answer(error, lacks))


HERE = {
    "torch": Fact("version", "2.9.1"),
    "Python": Fact("version", "3.11.7"),
    "the code of a.loss": Fact("code", "11"),
    "the corpus": Fact("data", "22"),
    "the storage /shared": Fact("storage", "33"),
}


def test_each_difference_is_told_in_its_kind() -> None:
    for name, there, expected in (
        ("torch", Fact("version", "2.8.0"), {"version": ["torch is 2.8.0 and not 2.9.1"]}),
        ("the corpus", Fact("data", "23"), {"data": ["the corpus is another one"]}),
        ("the corpus", Fact("data", None, "no wiki.txt"), {"data": ["the corpus: no wiki.txt"]}),
        ("the code of a.loss", None, {"code": ["the code of a.loss: not known there"]}),
    ):
        facts = {known: fact for known, fact in HERE.items() if known != name}
        assert compare_facts(facts | ({name: there} if there else {}), HERE) == expected
    more = {**HERE, "the code of a.other": Fact("code", "44")}  # which no trial here needs
    lacking = {**HERE, "the corpus": Fact("data", None, "no wiki.txt")}
    for there, here in ((HERE, HERE), (more, HERE), (HERE, lacking)):
        assert compare_facts(there, here) == {}


def test_one_sentence_has_the_node_what_differs_and_the_ways_out() -> None:
    found = {"version": ["torch is 2.8.0 and not 2.9.1"], "code": [f"module {n}" for n in range(5)]}
    told = why_no_trials("node gpu7 (10.0.0.7)", found)
    reasons = ["torch is 2.8.0 and not 2.9.1", "module 0", "module 1", "module 2", "and 2 more"]
    assert told.startswith(f"node gpu7 (10.0.0.7) gets no trials: {'; '.join(reasons)}; install ")
    assert told.endswith(" install the same code there")
