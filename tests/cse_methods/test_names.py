"""What authors call things, by hand."""

from cse_methods.names import (
    PAPER_PAGES,
    backbone_name,
    hyperparameter_name,
    method_name,
    paper_page,
    task_name,
)
from cse_methods.registry import get_method, own_methods


def test_hyperparameters() -> None:
    table = {"gamma": "γ", "tau2": "τ₂", "negative_tau": "negative τ", "d0": "d0"}
    table |= {name: name for name in ("learning_rate", "batch_size", "alphabet")}
    assert {name: hyperparameter_name(name) for name in table} == table


def test_what_has_no_other_name_keeps_its_own() -> None:
    assert method_name("rankcse") == "RankCSE"
    assert task_name("stsb") == "STS-B"
    assert backbone_name("roberta-base") == "RoBERTa-base"
    for named in (method_name, task_name, backbone_name):
        assert named("ours-2") == "ours-2"


def test_every_method_of_the_project_has_its_authors_name() -> None:
    assert {method_name(name).lower().replace("-", "") for name in own_methods()} == own_methods()
    assert all(method_name(name) != name for name in own_methods() - {"untrained"})


def test_a_source_leads_to_the_paper_that_the_method_names() -> None:
    for paper, page in PAPER_PAGES.items():
        assert get_method(paper).paper.url == page
    assert paper_page("rankcse table2") == PAPER_PAGES["rankcse"]
    assert paper_page("a lab's own") is None
