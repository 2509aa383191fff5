"""What a machine has of all that a sweep's trials need."""

import re
from pathlib import Path

import pytest
from ray.exceptions import RuntimeEnvSetupError

from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_platform.runner.cluster.checks import explain_no_answer
from cse_platform.runner.cluster.facts import NodeQuestions, find_facts, write_mark

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


def test_storage_is_the_same_where_the_driver_s_word_can_be_read(
    asked: NodeQuestions, tmp_path: Path
) -> None:
    name = f"the storage {tmp_path}"
    assert find_facts(asked)[name].value is None
    write_mark(asked.storage)
    first = find_facts(asked)[name].value
    assert first and find_facts(asked)[name].value == first
    assert [file.name for file in tmp_path.iterdir()] == ["nodes"]  # what it writes, it deletes
    write_mark(asked.storage)
    assert find_facts(asked)[name].value != first


def test_whatever_is_not_there_has_a_problem_and_hides_nothing_else(asked: NodeQuestions) -> None:
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
