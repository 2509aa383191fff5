"""PromptBERT: a sentence in two templates, each vector less what its template adds by itself.

Paper: Jiang et al., EMNLP 2022, https://arxiv.org/abs/2201.04337.
Departs from the released code: dev sets are scored as test sets are, where the code subtracts the
bare template's vectors on dev and leaves out the final stop; a bare template's positions begin
where the model's own do, where the code begins at 0, which for RoBERTa is not the same
(`bare_positions: from_zero` is the code's); word pieces are cut alike in training and at test time.
As there, a sentence gets a final stop at test time alone, and `max_length` does not count its
template. Continuous templates and the supervised runs are left out.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cse_methods.config import Conditions
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.devices import send_tensor
from cse_methods.encoders.edits import Edits
from cse_methods.encoders.template import SENTENCE, STOPPED_SENTENCE, Template
from cse_methods.losses.info_nce import info_nce
from cse_methods.settings import released, setting
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.prompted_config import PromptedConfig
from cse_methods.training.student import Batch, Student, StudentProtocol

_DENOISED = {"denoise": (True,)}
scripted = partial(setting, source="released scripts")


class PromptBERTConfig(PromptedConfig):
    conditions: ClassVar[Conditions] = dict.fromkeys(
        ("freeze_template", "shift_positions", "bare_positions"), _DENOISED
    )

    prompts: tuple[str, str] = scripted(
        ('This sentence of "{}" means [MASK].', 'This sentence : "{}" means [MASK].'),
        "templates of the two views; the same one twice leaves the views to dropout, "
        "and the first is used at test time",
    )
    max_length: int = scripted(
        32, "most word pieces of a sentence, without template and special ones", ge=4, le=512
    )
    temperature: float = scripted(0.05, "divides cosines", gt=0, symbol="τ")
    denoise: bool = scripted(
        True, "whether the vector of the bare template is subtracted in training"
    )
    freeze_template: bool = released(False, "whether the vector of the bare template is constant")
    shift_positions: bool = released(
        True, "whether the bare template's end stands where it does behind the sentence"
    )
    bare_positions: Literal["own", "from_zero"] = released(
        "own",
        "where a bare template begins: at the model's first position, or at 0, which "
        "for RoBERTa is another; the released code has 0",
    )

    def test_prompt(self) -> str | None:
        """Return the first template; it adds a full stop to sentences without a final mark."""
        return self.prompts[0].replace(SENTENCE, STOPPED_SENTENCE)


class PromptBERT(TwoViewObjective):
    """Contrasts each sentence in two templates, whose own vectors are subtracted."""

    def __init__(self, config: PromptBERTConfig) -> None:
        super().__init__()
        self.config = config

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        first, second = map(student.encoder.prompt, self.config.prompts)
        room = student.encoder.limit - max(len(first), len(second))
        # Sentences are truncated without their template, which does not count, nor a final stop.
        contents = student.pieces_of(batch, Template((), (), prompted=True))
        return TwoViews([content[:room] for content in contents], (first, second))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Encode each view, subtract its template's vector, and apply the head."""
        encoded = student.encode(views.contents, *views.templates, head=False)
        if self.config.denoise:
            lengths = [len(content) for content in views.contents]
            templates = map(student.encoder.prompt, self.config.prompts)
            encoded = tuple(
                self._subtract_template(view, template, lengths, student)
                for view, template in zip(encoded, templates, strict=True)
            )
        return tuple(map(student.head, encoded))

    def losses(self, first: Tensor, second: Tensor, *_: Tensor, **__: Any) -> dict[str, Tensor]:
        return {"contrastive": info_nce(first, second, temperature=self.config.temperature)}

    def _subtract_template(
        self, vectors: Tensor, template: Template, lengths: list[int], student: StudentProtocol
    ) -> Tensor:
        """Subtract the vectors of the bare template, one for each length in the batch."""
        config, rows = self.config, {length: row for row, length in enumerate(sorted({*lengths}))}
        first = 0 if config.bare_positions == "own" else -student.encoder.first_position
        positions = [
            template_positions(template, length if config.shift_positions else 0, first=first)
            for length in rows
        ]
        with torch.set_grad_enabled(not config.freeze_template):
            edits = Edits(positions=positions)
            (bare,) = student.encode([[]] * len(rows), template, head=False, edits=edits)
        return denoise(vectors, bare, [rows[length] for length in lengths])


def template_positions(template: Template, pieces: int, *, first: int = 0) -> list[int]:
    """Compute the positions of a bare template's pieces for a sentence of `pieces` >= 0 pieces.

    Pieces after the sentence keep the positions that they have behind it. `first` is the position
    of the first piece.

    Source:
        Jiang et al. 2022 (PromptBERT), as its released code computes it.
    """
    before, after = len(template.before), len(template.after)
    start = first + before + pieces
    return [*range(first, first + before), *range(start, start + after)]


def denoise(vectors: Tensor, bare: Tensor, lengths: Sequence[int] | Tensor) -> Tensor:
    """Subtract the bare template's vectors from those of sentences in the template, shape (B, D).

    Row k of `bare`, shape (K, D), is that of the bare template for a sentence of k pieces;
    `lengths` names the row for each sentence, shape (B,), in [0, K).

    Source:
        Jiang et al. 2022 (PromptBERT), as its released code computes it.
    """
    return vectors - bare[send_tensor(torch.as_tensor(lengths), bare.device)]


@register_objective("promptbert", config=PromptBERTConfig, revision=1)
def build(config: PromptBERTConfig, _corpus: Corpus, _: Student) -> PromptBERT:
    return PromptBERT(config)
