from pathlib import Path
from typing import Any

import numpy as np
import pytest
import started_papers
import torch
from pydantic import ValidationError
from started_papers import ON_SICK

from cse_methods.contract import BEST_FOLDER
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.loading import load_encoder
from cse_methods.losses.info_nce import info_nce
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


def test_the_loss_is_of_anchors_positives_and_weighed_hard_negatives(tiny_bert: Path) -> None:
    texts = tuple(map(list, zip(*ROWS, strict=True)))
    for supervision, names in (("triples", ["x", "y", "z"]), ("pairs", ["x", "y"])):
        of_triples = {"hard_negative_weight": 2.0} if supervision == "triples" else {}
        plain: dict[str, Any] = {"backbone": str(tiny_bert), "dropout": 0.0, "head": False}
        how = {"supervision": supervision, "columns": names, "temperature": 0.5}
        config = configured(**plain, **how, **of_triples)
        student = Student.from_config(config).train()
        corpus = Corpus("nli", texts[0], "", texts[: len(names)])
        template = student.encoder.template
        views = [student.encode(student.pieces(t, template), template)[0] for t in corpus.columns]
        negatives = {"negatives": views[2], **of_triples} if of_triples else {}
        expected = info_nce(*views[:2], temperature=0.5, **negatives)
        found = SupervisedSimCSE(config, corpus)(student, Batch(texts[0], np.arange(4)))
        torch.testing.assert_close(found, {"contrastive": expected})


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
