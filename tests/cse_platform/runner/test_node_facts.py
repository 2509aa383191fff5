import re

from in_process import new_spec
from ray.exceptions import RuntimeEnvSetupError

from cse_platform.runner.failure_policy import BadNodes
from cse_platform.runner.node_facts import (
    Fact,
    describe_differences,
    describe_sweep,
    find_facts,
    write_mark,
)
from cse_platform.runner.nodes import explain_no_answer

GONE = "/not/there"


def test_storage_is_the_same_where_the_driver_s_word_can_be_read(tmp_path) -> None:
    name, asked = f"the storage {tmp_path}", describe_sweep(new_spec())
    mark = str(tmp_path / "nodes")
    assert find_facts(asked, mark)[name].value is None
    write_mark(mark)
    first = find_facts(asked, mark)[name].value
    assert first and find_facts(asked, mark)[name].value == first
    assert [file.name for file in tmp_path.iterdir()] == ["nodes"]  # what it writes, it deletes
    write_mark(mark)
    assert find_facts(asked, mark)[name].value != first


def test_whatever_is_not_there_has_a_problem_and_hides_nothing_else() -> None:
    stores = {"mlflow": "http://me:secret@host"}
    fixed = {"teachers": [{"model": GONE}]}
    spec = new_spec(method="rankcse", space={}, fixed=fixed, stores=stores)
    assert "secret" not in str(describe_sweep(spec))
    facts = find_facts(describe_sweep(spec), None)
    lacking = {name for name, fact in facts.items() if fact.value is None}
    assert lacking == {f"the encoder {GONE}"} and facts[f"the encoder {GONE}"].problem
    there = {"Python", "torch", "the method rankcse", "the corpus", "the dev set stsb"}
    assert there | {"the encoder mini", "the code of cse_methods.papers.rankcse"} < facts.keys()
    no_method = find_facts({**describe_sweep(spec), "method": "unknown"}, None)
    assert no_method["the method unknown"].problem and no_method["the corpus"].value


def test_a_node_that_cannot_answer_gets_a_reason() -> None:
    for error, says in (
        (RuntimeEnvSetupError("pip\nERROR: no wheel\n"), r"packages .*[(]no wheel[)].*--no-ship"),
        (RuntimeEnvSetupError("no agent"), r"code .*[(]no agent[)]"),
        (ImportError("no cse_platform"), "no cse_platform; install cse-platform "),
    ):
        assert re.search(says, explain_no_answer(error))


HERE = {
    "torch": Fact("version", "2.9.1"),
    "Python": Fact("version", "3.11.7"),
    "the code of a.loss": Fact("code", "11"),
    "the corpus": Fact("data", "22"),
    "the storage /shared": Fact("storage", "33"),
}


def test_each_difference_is_told_with_its_way_out() -> None:
    for name, there, told in (
        ("torch", Fact("version", "2.8.0"), "torch is 2.8.0 and not 2.9.1; install there what "),
        ("the corpus", Fact("data", "23"), "the corpus is different; put the same files"),
        ("the corpus", Fact("data", None, "no wiki.txt"), "the corpus: no wiki.txt; put"),
        ("the code of a.loss", None, "the code of a.loss: not known there; install the same code"),
    ):
        facts = {known: fact for known, fact in HERE.items() if known != name}
        there_too = facts | ({name: there} if there else {})
        assert describe_differences(there_too, HERE).startswith(told)
    more = {**HERE, "the code of a.other": Fact("code", "44")}  # which no trial here needs
    lacking = {**HERE, "the corpus": Fact("data", None, "no wiki.txt")}
    for there, here in ((HERE, HERE), (more, HERE), (HERE, lacking)):
        assert describe_differences(there, here) == ""


def run(nodes: BadNodes, trial: str, node: str, *, well: bool) -> list[str]:
    if well:
        nodes.note_progress(trial, node)
        return []
    return nodes.note_failure(trial, node)


def test_a_node_that_fails_what_does_well_elsewhere_is_bad_and_what_failed_is_named() -> None:
    nodes = BadNodes()
    for number in range(8):
        run(nodes, f"good {number}", "a", well=True)
    run(nodes, "early", "b", well=True)  # it was in order before
    told = [run(nodes, f"bad {number}", "b", well=False) for number in range(9)]
    [failed] = filter(None, told)  # said once
    assert failed == [f"bad {number}" for number in range(len(failed))]
    assert len(failed) <= 6


def test_a_node_is_bad_once_chance_explains_its_failures_in_one_of_100_000_cases() -> None:
    nodes = BadNodes()
    run(nodes, "good", "a", well=True)  # so the rate of failure elsewhere is estimated as 1/3
    told = [run(nodes, f"bad {number}", "b", well=False) for number in range(11)]
    assert [len(failed) for failed in told] == [0] * 10 + [11]  # (1/3)^10 is 0.000017


def test_no_node_is_bad_while_none_does_better_or_for_one_trial() -> None:
    nodes = BadNodes()
    for number in range(50):
        assert not run(nodes, f"one {number}", "a", well=False)
        assert not run(nodes, f"other {number}", "b", well=False)
    nodes = BadNodes()
    for number in range(20):
        run(nodes, f"good {number}", "a", well=True)
    assert [run(nodes, "too large", "b", well=False) for _ in range(9)] == [[]] * 9
