from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from some_sentences import FOUR as SENTENCES
from started_papers import BUILTIN, configured
from torch import Tensor
from torch.testing import assert_close

from cse_methods.losses.info_nce import info_nce
from cse_methods.losses.segments import entailment, local_contrast
from cse_methods.papers.esimcse import ESimCSE, ESimCSEConfig
from cse_methods.papers.hicl import HiCL, HiCLConfig
from cse_methods.papers.simcse import SimCSE, SimCSEConfig
from cse_methods.papers.sncse import SNCSE, SNCSEConfig
from cse_methods.training.objective import Objective
from cse_methods.training.sliced import SlicedStudent
from cse_methods.training.student import Batch, Student

NEGATIONS = [f"Not {sentence}" for sentence in SENTENCES[:3]] + ["The pilot does not thank her."]
BATCH = Batch(SENTENCES, np.arange(4))


def settings_of(base: str, backbone: Path | str, **settings: Any) -> dict[str, Any]:
    own = {"queue_size": 6} if base == "esimcse" else {}
    own |= {"negations": "unread"} if base == "sncse" else {}
    return BUILTIN | {"backbone": str(backbone), "max_length": 64} | own | settings


def base_of(base: str, config: Any, student: Student) -> Objective:
    view = {"negatives_from": getattr(config, "negatives_from", "other_view")}
    if base == "sncse":
        return SNCSE(config, NEGATIONS, **view)
    return SimCSE(config, **view) if base == "simcse" else ESimCSE(config, student, **view)


def started(base: str, backbone: Path | str, **settings: Any) -> tuple[Student, HiCL]:
    config = HiCLConfig.model_validate(settings_of(base, backbone, **settings) | {"base": base})
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    return student, HiCL(config, base_of(base, config, student))


def numbers(parts: dict[str, Tensor]) -> dict[str, float]:
    return {name: part.item() for name, part in parts.items()}


def rows_read(student: Student) -> list[list[list[int]]]:
    """The rows of every batch that the model will read, without padding."""
    batches: list[list[list[int]]] = []

    def keep(encoder: Any, arguments: tuple[dict[str, Tensor]]) -> None:
        (inputs,) = arguments
        lengths = inputs["attention_mask"].sum(dim=1)
        rows = zip(inputs["input_ids"].tolist(), lengths.tolist(), strict=True)
        assert inputs["input_ids"].shape[1] == lengths.max()  # padded to the longest, no further
        batches.append([row[:length] for row, length in rows])

    student.encoder.register_forward_pre_hook(keep)
    return batches


@pytest.mark.parametrize("base", ["simcse", "esimcse", "sncse"])
def test_with_one_segment_a_sentence_and_alpha_0_the_loss_is_the_base_s(
    base: str, tiny_bert: Path
) -> None:
    configs = {"simcse": SimCSEConfig, "esimcse": ESimCSEConfig, "sncse": SNCSEConfig}
    config = configs[base].model_validate(settings_of(base, tiny_bert))
    torch.manual_seed(0)
    student = Student.from_config(config).train()
    alone = base_of(base, config, student)
    expected = [numbers(alone(student, BATCH)) for _ in range(2)]  # the second one with a queue
    student, hicl = started(base, tiny_bert, slicing_length=64, alpha=0)
    found = [numbers(hicl(student, BATCH)) for _ in range(2)]
    for plain, sliced in zip(expected, found, strict=True):
        assert sliced.pop("global") == pytest.approx(plain.pop("contrastive"), rel=1e-5)
        assert sliced.pop("local") == 0
        assert sliced == pytest.approx(plain, rel=1e-4, abs=1e-9)  # the margin, where there is one


def test_sentences_are_the_means_of_their_segments(tiny_bert: Path) -> None:
    """Of the lengths 5 and 11, at 4 pieces a segment and at 2 beside the special ones."""
    student, _ = started("simcse", tiny_bert, dropout=0)
    contents, template = [list(range(10, 15)), list(range(20, 31))], student.encoder.template
    for special, weighted in product((0, 2), (True, False)):
        sliced = SlicedStudent(student, length=4, special=special, weighted=weighted)
        found = sliced.encode_segments(contents, template)
        size, expected = 4 - special, []
        for content in contents:
            segments = [content[i : i + size] for i in range(0, len(content), size)]
            (vectors,) = student.encode(segments, template)
            weights = [len(s) + special if weighted else 1 for s in segments]
            expected.append(torch.tensor(np.average(vectors.detach(), axis=0, weights=weights)))
        (pooled,) = found.sentences
        assert_close(pooled, torch.stack(expected).float())
        assert found.sequence.tolist() == [0] * -(-5 // size) + [1] * -(-11 // size)


def test_the_losses_of_segments_and_sentences(tiny_bert: Path) -> None:
    names = ("negatives_from", "same_sequence_segments", "negatives")
    plain = ("other_view", "neither", "summation")
    for place, value in (
        (0, "other_view"),
        (0, "same_view"),
        (1, "negative"),
        (1, "positive"),
        (2, "averaging"),
    ):
        settings: dict[str, Any] = dict(zip(names, plain, strict=True)) | {names[place]: value}
        student, _ = started("simcse", tiny_bert, dropout=0.1)
        torch.manual_seed(3)
        sliced = SlicedStudent(student, length=5, special=0, weighted=True)
        template = student.encoder.template
        contents = student.pieces(SENTENCES, template)
        segments = sliced.encode_segments(contents, template, template)
        (whole, other), (first, second) = segments.sentences, segments.views
        view, same, negatives = settings.values()
        how = {"same_sequence": same, "negatives": negatives, "negatives_from": view}
        local = local_contrast(first, second, segments.sequence, temperature=0.1, **how)
        expected = {
            "global": 0.5 * info_nce(whole, other, temperature=0.1, negatives_from=view),
            "local": 0.2 * local,
            "entailment": 0.3 * entailment(first, whole, segments.sequence, temperature=0.1),
        }
        weights = {"alpha": 0.2, "beta": 0.3, "temperature": 0.1, "slicing_length": 5}
        student, hicl = started("simcse", tiny_bert, **weights, **settings)
        torch.manual_seed(3)
        assert numbers(hicl(student, BATCH)) == pytest.approx(numbers(expected), rel=1e-5)


def test_every_segment_of_sentence_and_negation_has_the_prompt(tiny_bert: Path) -> None:
    student, hicl = started("sncse", tiny_bert, slicing_length=7)
    prompt, other = (student.encoder.prompt(words) for words in hicl.config.prompts)
    batches = rows_read(student)
    hicl(student, BATCH)
    read = ((SENTENCES, prompt), (NEGATIONS, other))
    cut, denied = (
        [content[i : i + 7] for content in contents for i in range(0, len(content), 7)]
        for contents in (student.encoder.pieces(*one) for one in read)
    )
    assert batches[0] == [prompt(c) for c in cut] + [other(c) for c in cut]
    assert batches[1] == [other(c) for c in denied]
    assert len(cut) != len(denied)  # a negation is cut by its own length


def test_the_margin_of_sncse_counts_with_the_global_weight(tiny_bert: Path) -> None:
    losses = []
    for weights in ({"alpha": 0}, {"alpha": 0.2, "beta": 0.3}):
        student, hicl = started("sncse", tiny_bert, dropout=0, slicing_length=7, **weights)
        losses.append(numbers(hicl(student, BATCH)))
    assert losses[0]["margin"] > 0
    for part in ("global", "margin"):
        assert losses[1][part] == pytest.approx(0.5 * losses[0][part], rel=1e-5)


def test_a_base_fills_in_defaults_and_unfit_settings_are_refused() -> None:
    for base, pooler in [("simcse", "cls"), ("esimcse", "cls"), ("sncse", "mask")]:
        config = configured("hicl", **settings_of(base, "mini"), base=base)
        assert (config.pooler, config.head) == (pooler, True)
        assert (config.test_prompt() is None) == (base != "sncse")
        assert config.files() == (("unread",) if base == "sncse" else ())
        assert config.ingredients() == {}
    table: list[tuple[dict[str, Any], str]] = [
        ({"queue_size": 8}, "queue_size=8 has no effect with base: simcse"),
        ({"base": "esimcse", "margin_low": 0.2}, "margin_low=0.2 has no effect with base: esimcse"),
        ({"base": "sncse", "momentum": 0.9}, "momentum=0.9 has no effect with base: sncse"),
        ({"alpha": 0.8, "beta": 0.3}, "alpha=0.8 and beta=0.3 add up to more than 1"),
        ({"pooler": "mask"}, "the pooler mask needs prompts"),
    ]
    for settings, message in table:
        with pytest.raises(ValidationError, match=message):
            configured("hicl", **settings)
