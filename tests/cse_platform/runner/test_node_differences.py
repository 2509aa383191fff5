"""What a node has in another way than the driver, worked out by hand."""

from cse_platform.runner.cluster.facts import Fact, compare_facts, why_no_trials

HERE = {
    "torch": Fact("version", "2.9.1"),
    "Python": Fact("version", "3.11.7"),
    "the code of a.loss": Fact("code", "11"),
    "the corpus": Fact("data", "22"),
    "the storage /shared": Fact("storage", "33"),
}


def test_a_node_like_the_driver_s_machine_passes() -> None:
    assert compare_facts(HERE, HERE) == {}
    more = {**HERE, "the code of a.other": Fact("code", "44")}
    assert compare_facts(more, HERE) == {}  # what no trial of this sweep needs
    here = {**HERE, "the corpus": Fact("data", None, "no wiki.txt")}
    assert compare_facts(HERE, here) == {}  # what the driver lacks itself


def test_each_difference_is_told_in_its_kind() -> None:
    for name, there, expected in (
        ("torch", Fact("version", "2.8.0"), {"version": ["torch is 2.8.0 and not 2.9.1"]}),
        ("the corpus", Fact("data", "23"), {"data": ["the corpus is another one"]}),
        ("the corpus", Fact("data", None, "no wiki.txt"), {"data": ["the corpus: no wiki.txt"]}),
        ("the code of a.loss", None, {"code": ["the code of a.loss: not known there"]}),
    ):
        facts = {known: fact for known, fact in HERE.items() if known != name}
        assert compare_facts(facts | ({name: there} if there else {}), HERE) == expected


def test_one_sentence_has_the_node_what_differs_and_the_ways_out() -> None:
    found = {"version": ["torch is 2.8.0 and not 2.9.1"], "code": [f"module {n}" for n in range(5)]}
    told = why_no_trials("node gpu7 (10.0.0.7)", found)
    reasons = ["torch is 2.8.0 and not 2.9.1", "module 0", "module 1", "module 2", "and 2 more"]
    assert told.startswith(f"node gpu7 (10.0.0.7) gets no trials: {'; '.join(reasons)}; install ")
    assert told.endswith(" install the same code there")
