import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import started_papers
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from some_sentences import FOUR as SENTENCES
from torch import Tensor
from torch.testing import assert_close

from cse_methods.errors import DataError, TrainingError
from cse_methods.papers.compcse import CompCSE, CompCSEConfig, train
from cse_methods.training.student import Batch, Student

configured = partial(started_papers.configured, "compcse", dropout=0.0)


def started(
    config: CompCSEConfig, examples: list[tuple[str, ...]] | None = None
) -> tuple[Student, CompCSE]:
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    return student, CompCSE(config, student, examples or [(one,) for one in SENTENCES])


def loss_of(student: Student, objective: CompCSE, rows: tuple[int, ...] = (0, 1, 2, 3)) -> Tensor:
    sentences = [" ".join(objective.examples[row]) for row in rows]
    return objective(student, Batch(sentences, np.array(rows)))["contrastive"]


def pieces(student: Student, text: str) -> list[int]:
    return list(student.encoder.tokenizer(text, add_special_tokens=False)["input_ids"])


def encoded(student: Student, contents: list[list[int]], *, room: int = 30) -> Tensor:
    rows = [[2, *content[:room], 3] for content in contents]
    vectors: Tensor = student.encoder(student.encoder.pad(rows))
    return vectors


def halves(student: Student, text: str) -> list[list[int]]:
    content = pieces(student, text)
    middle = math.ceil(len(content) / 2)
    return [content[:middle], content[middle:]]


def contrast(anchors: Tensor, positives: Tensor) -> Tensor:
    cosines = F.cosine_similarity(anchors.unsqueeze(1), positives.unsqueeze(0), dim=2)
    return F.cross_entropy(cosines / 0.05, torch.arange(len(anchors)))


def projected(read: list[Tensor], objective: CompCSE) -> Tensor:
    assert objective.projection is not None
    return torch.cat(read, dim=1) @ objective.projection.weight.T


JOINS: dict[str, Callable[[list[Tensor], CompCSE], Tensor]] = {
    "sum": lambda p, _: p[0] + p[1],
    "average": lambda p, _: (p[0] + p[1]) / 2,
    "concat-halves": lambda p, _: torch.cat([p[0][:, :16], p[1][:, 16:]], dim=1),
    "concat-project": lambda p, own: projected(p, own),
    "concat-absdiff-project": lambda p, own: projected([*p, (p[0] - p[1]).abs()], own),
}


@pytest.mark.parametrize("aggregation", JOINS)
def test_a_positive_is_composed_of_the_sentence_s_halves(aggregation: str, tiny_bert: Path) -> None:
    for after in (False, True):
        settings = {"aggregation": aggregation, "aggregate_after_head": after, "d0": 20}
        student, objective = started(configured(tiny_bert, **settings))
        own = [halves(student, text) for text in SENTENCES]
        parts = [encoded(student, list(place)) for place in zip(*own, strict=True)]
        head, join = student.head, JOINS[aggregation]
        composed = [head(p) for p in parts] if after else parts
        positives = join(composed, objective)
        positives = positives if after else head(positives)
        anchors = head(encoded(student, [pieces(student, text) for text in SENTENCES]))
        loss = loss_of(student, objective)
        assert_close(loss, contrast(anchors[:, :20], positives[:, :20]))
        if objective.projection is not None:
            loss.backward()
            assert objective.projection.weight.grad is not None  # it is trained
            assert objective.projection.weight.grad.abs().sum() > 0


def test_compose_selects_which_view_is_composed(tiny_bert: Path) -> None:
    student, _ = started(configured(tiny_bert))
    own = [halves(student, text) for text in SENTENCES]
    whole = student.head(encoded(student, [pieces(student, text) for text in SENTENCES]))
    left, right = (encoded(student, list(place)) for place in zip(*own, strict=True))
    composed = student.head((left + right) / 2)
    views = {"z+": (whole, composed), "z": (composed, whole), "both": (composed, composed)}
    for compose, (anchors, positives) in views.items():
        student, objective = started(configured(tiny_bert, compose=compose))
        assert_close(loss_of(student, objective), contrast(anchors, positives))
    for partitions in (3, 4):  # numpy cuts alike: by one at most, the longer parts first
        student, objective = started(configured(tiny_bert, partitions=partitions))
        own = [np.array_split(pieces(student, text), partitions) for text in SENTENCES]
        parts = [encoded(student, [p.tolist() for p in place]) for place in zip(*own, strict=True)]
        anchors = student.head(encoded(student, [pieces(student, text) for text in SENTENCES]))
        expected = contrast(anchors, student.head(torch.stack(parts).mean(dim=0)))
        assert_close(loss_of(student, objective), expected)


def test_each_part_is_truncated_by_itself(tiny_bert: Path) -> None:
    """Of 14 pieces, an anchor holds 4 at max_length 6, and so does each half of the whole."""
    student, objective = started(configured(tiny_bert, max_length=6))
    contents = [pieces(student, text) for text in SENTENCES]
    assert len(contents[2]) > 8
    own = [halves(student, text) for text in SENTENCES]
    left, right = (encoded(student, list(place), room=4) for place in zip(*own, strict=True))
    anchors = student.head(encoded(student, contents, room=4))
    expected = contrast(anchors, student.head((left + right) / 2))
    assert_close(loss_of(student, objective), expected)


def test_a_subsample_is_composed_of_its_phrases(tiny_bert: Path) -> None:
    examples = [(SENTENCES[0],), ("Rain falls", "on the quiet town in the old garden."), ("A",)]
    student, objective = started(configured(tiny_bert, subsampling="adjacent"), examples)
    left = [halves(student, SENTENCES[0])[0], pieces(student, "Rain falls"), pieces(student, "A")]
    right = [halves(student, SENTENCES[0])[1], pieces(student, examples[1][1]), left[2]]
    positives = student.head((encoded(student, left) + encoded(student, right)) / 2)
    texts = [" ".join(parts) for parts in examples]
    anchors = student.head(encoded(student, [pieces(student, text) for text in texts]))
    order = torch.tensor([1, 2, 0])
    expected = contrast(anchors[order], positives[order])
    assert_close(loss_of(student, objective, (1, 2, 0)), expected)


def test_training_reads_the_file_of_phrases(tiny_bert, tmp_path, new_run) -> None:
    corpus, phrases = tmp_path / "corpus.txt", tmp_path / "phrases.tsv"
    corpus.write_text("".join(f"{one}\n" for one in SENTENCES), encoding="utf-8")
    phrases.write_text("Rain falls\ton the quiet town.\n", encoding="utf-8")
    settings = {"corpus": str(corpus), "subsampling": "adjacent", "phrases": str(phrases)}
    config = configured(tiny_bert, **settings)
    assert config.files() == (str(phrases),)
    with pytest.raises(DataError, match="lacks 3 of the 4 sentences"):
        train(config, new_run())


def test_settings_that_do_not_fit_each_other_are_refused(tiny_bert: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"partitions": 3, "aggregation": "concat-absdiff-project"}, "two parts, got partitions=3"),
        ({"partitions": 3, "subsampling": "adjacent"}, "partitions=3 has no effect"),
        ({"phrases": "file.tsv"}, "phrases=file.tsv has no effect with subsampling: none"),
        ({"pooler": "mask"}, "the pooler mask needs prompts"),
    ]
    for settings, message in refused:
        with pytest.raises(ValidationError, match=message):
            configured(**settings)
    with pytest.raises(TrainingError, match=r"d0 is 33, and the embeddings of .* have 32"):
        started(configured(tiny_bert, d0=33))
