from math import exp, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import started_papers
import torch
from pydantic import ValidationError
from started_papers import ON_SICK

from cse_methods.contract import BEST_FOLDER
from cse_methods.data.corpora import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.papers.simcse import SimCSEConfig, SupervisedSimCSE
from cse_methods.registry import available_methods, get_method
from cse_methods.training.student import Batch, Student

ROWS = [
    ("The nurse thanks the pilot.", "A nurse is grateful.", "Nobody thanks the pilot."),
    ("Two men play chess.", "Men are at a game.", "Two men sleep."),
    ("Rain falls on the town.", "It rains.", "The sun shines on the town."),
    ("She reads a long book.", "A woman reads.", "She burns the book."),
]


def configured(path: Path | str = "a.csv", **settings: Any) -> Any:
    columns = settings.pop("columns", ["x", "y", "z"])
    given = {"corpus": {"name": str(path), "columns": columns}, "supervision": "triples"}
    return started_papers.configured("simcse", **given | settings)


class Given:
    """A student whose vectors are stated, a row each; it notes what it reads."""

    def __init__(self, vectors: list[list[float]]) -> None:
        self.vectors = torch.tensor(vectors, dtype=torch.float64)
        self.encoder = SimpleNamespace(template=object())
        self.read: list[str] = []

    def pieces_at(self, rows: Any, texts: Corpus, template: object) -> list[str]:
        assert template is self.encoder.template
        found = [texts.sentences[row] for row in rows]
        self.read += found
        return found

    def encode(self, contents: list[str], *templates: object) -> tuple[torch.Tensor, ...]:
        assert len(contents) == len(self.vectors) and len(templates) == 1
        return (self.vectors,)


def loss_of(vectors: list[list[float]], texts: tuple[list[str], ...], **settings: Any) -> float:
    student: Any = Given(vectors)
    objective = SupervisedSimCSE(configured(**settings), Corpus("nli", texts[0], "", texts))
    parts = objective(student, Batch(texts[0], np.arange(2), texts))
    assert list(parts) == ["contrastive"]
    assert student.read == [text for column in texts for text in column]
    return parts["contrastive"].item()


A, B, MINUS_A = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]


def test_the_losses_of_triples_and_pairs_equal_hand_worked_ones() -> None:
    """Equation 5 with α = 2: anchors a, b; positives a, b; hard negatives -a, a; τ = 0.5.

    Anchor a: cosines 1, 0 with the positives; -1 with its own negative, 1 with the other's.
    Anchor b: cosines 0, 1 with the positives; 0 with its own negative, 0 with the other's.
    """
    texts = (["a", "b"], ["a+", "b+"], ["a-", "b-"])
    first = -log(exp(2) / (exp(2) + exp(0) + 2 * exp(-2) + exp(2)))
    second = -log(exp(2) / (exp(0) + exp(2) + exp(0) + 2 * exp(0)))
    found = loss_of([A, B, A, B, MINUS_A, A], texts, temperature=0.5, hard_negative_weight=log(2))
    assert found == pytest.approx((first + second) / 2, rel=1e-12)
    # Of pairs, anchor a has two equal candidates; anchor b is as near to both.
    pairs: dict[str, Any] = {"temperature": 0.5, "supervision": "pairs", "columns": ["x", "y"]}
    assert loss_of([A, B, A, A], texts[:2], **pairs) == pytest.approx(log(2), rel=1e-12)


def test_training_pulls_positives_nearer_than_negatives(tmp_path, tiny_bert, new_run) -> None:
    nli, run = tmp_path / "nli.csv", new_run()
    nli.write_text("x,y,z\n" + "".join(f"{','.join(row)}\n" for row in ROWS))
    steps = {"max_steps": 30, "eval_steps": 30, "learning_rate": 1e-3, "batch_size": 2}
    config = configured(nli, backbone=str(tiny_bert), dev=ON_SICK, **steps)
    get_method("simcse").train(config, run)
    encoder = load_encoder(str(run.folder / "30" / BEST_FOLDER))
    anchors, positives, negatives = map(encoder.encode, zip(*ROWS, strict=True))
    near = torch.cosine_similarity(anchors, positives)
    assert near.mean() > torch.cosine_similarity(anchors, negatives).mean()


def test_the_head_stays_at_test_time(tiny_bert: Path) -> None:
    for head in (True, False):
        config = configured(backbone=str(tiny_bert), head=head)
        student = Student.from_config(config)
        encoder = SupervisedSimCSE(config, Corpus("", [], "")).evaluation_encoder(student)
        assert encoder.post_pooling == ([student.head] if head else [])


def test_supervision_must_fit_the_columns_of_the_corpus() -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"supervision": None}, "a.csv has 3 columns, and this method trains on single sentences"),
        ({"supervision": "pairs"}, "a.csv has 3 columns, and 2 columns are needed"),
        ({"corpus": "builtin"}, "builtin has single sentences, and 3 columns are needed"),
        ({"corpus": ["wiki1m", {"name": "a.csv", "columns": [1, 2, 3]}]}, "wiki1m has single"),
        ({"supervision": "quads"}, "'pairs' or 'triples'"),
        (
            {"supervision": "pairs", "columns": ["x", "y"], "hard_negative_weight": 1.0},
            "hard_negative_weight=1.0 has no effect",
        ),
    ]
    for settings, datum in table:
        with pytest.raises(ValidationError, match=datum):
            configured(**settings)
    # What a trial's key is made of: the switch is not in it while it is off.
    config = SimCSEConfig.model_validate({"backbone": "mini", "corpus": "builtin"})
    assert not {"supervision", "hard_negative_weight"} & set(config.hyperparameters())
    assert configured().hyperparameters()["supervision"] == "triples"


def test_methods_of_single_sentences_refuse_columns() -> None:
    needed = {"rankcse": {"teachers": ["mini"]}, "dclr": {"complementary_model": "mini"}}
    needed |= {"diffcse": {"generator": "mini"}, "distillcse": {"teachers": ["mini"]}}
    corpus = {"name": "a.csv", "columns": ["x", "y"]}
    for method in sorted(set(available_methods()) - {"multicsr", "pna", "simcse", "st"}):
        settings = needed.get(method, {}) | {"backbone": "mini", "corpus": corpus}
        with pytest.raises(ValidationError, match=r"a\.csv has 2 columns"):
            get_method(method).config.model_validate(settings)
