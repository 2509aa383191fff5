"""CoT-BERT: a sentence in two prompts and in a negated one, each of which summarises it twice.

Paper: Zhang et al., ICANN 2024, https://arxiv.org/abs/2309.11143.
As in its released code: the vector is that of a prompt's last mask; from it the vector of the same
prompt around as many padding pieces is subtracted in training, before the head; nothing is
subtracted at test time, where a sentence gets a final stop; `max_length` does not count the prompt.
Departs from it: a batch is contrasted as a whole, where its script contrasts the halves of a batch
on two GPUs; dev sets are scored as test sets are; word pieces are cut alike in training and at test
time.
"""

from typing import Any, Self

from pydantic import model_validator
from torch import Tensor

from cse_methods.data.corpus import Corpus
from cse_methods.encoders.template import SENTENCE, STOPPED_SENTENCE, Template, prompt_problem
from cse_methods.errors import SettingError
from cse_methods.losses.augmented_negatives import augmented_contrast
from cse_methods.papers.promptbert import denoise
from cse_methods.settings import released
from cse_methods.training.loop import register_objective
from cse_methods.training.objective import TwoViewObjective, TwoViews
from cse_methods.training.prompted_config import PromptedConfig
from cse_methods.training.student import Batch, Student, StudentProtocol


class CoTBERTConfig(PromptedConfig):
    prompts: tuple[str, str] = released(
        (
            'The sentence of "{}" means [MASK] , so it can be summarized as [MASK] .',
            'The sentence : "{}" means [MASK] , so it can be summarized as [MASK] .',
        ),
        "prompts of the two views, read at their last mask; the first is used at test time",
    )
    negated_prompt: str = released(
        'The sentence : "{}" does not mean [MASK] , so it cannot be summarized as [MASK] .',
        "prompt of a sentence's hard negative",
    )
    max_length: int = released(
        32, "most word pieces of a sentence, without prompt and special ones", ge=4, le=512
    )
    temperature: float = released(0.05, "divides cosines", gt=0, symbol="τ")
    denoise: bool = released(
        True, "whether the vector of a prompt around padding is subtracted in training"
    )

    @model_validator(mode="after")
    def _refuse_another_negated_prompt(self) -> Self:
        if problem := prompt_problem(self.negated_prompt):
            raise SettingError("negated_prompt", problem)
        return self

    def test_prompt(self) -> str | None:
        """Return the first prompt; it adds a full stop to sentences without a final mark."""
        return self.prompts[0].replace(SENTENCE, STOPPED_SENTENCE)


class CoTBERT(TwoViewObjective):
    """Contrasts each sentence in two prompts; the same sentence in a negated one is a negative."""

    def __init__(self, config: CoTBERTConfig) -> None:
        super().__init__()
        self.config = config

    def views(self, student: StudentProtocol, batch: Batch) -> TwoViews:
        first, second = map(student.encoder.prompt, self.config.prompts)
        negated = student.encoder.prompt(self.config.negated_prompt)
        longest, limit = max(first, second, negated, key=len), student.encoder.limit
        longest.refuse_no_room(limit)
        # Sentences are truncated without their prompt, which does not count, nor a final stop.
        contents = student.pieces_of(batch, Template((), (), prompted=True))
        return TwoViews([content[: limit - len(longest)] for content in contents], (first, second))

    def encode(self, student: StudentProtocol, views: TwoViews) -> tuple[Tensor, ...]:
        """Encode both views and the negated one, denoise each, and apply the head."""
        negated = student.encoder.prompt(self.config.negated_prompt)
        templates = (*views.templates, negated)
        encoded = student.encode(views.contents, *templates, head=False)
        if self.config.denoise:
            lengths = [len(content) for content in views.contents]
            rows = {length: row for row, length in enumerate(sorted({*lengths}))}
            padding = student.encoder.tokenizer.pad_token_id
            bare = student.encode([[padding] * length for length in rows], *templates, head=False)
            of_each = [rows[length] for length in lengths]
            encoded = tuple(denoise(*pair, of_each) for pair in zip(encoded, bare, strict=True))
        return tuple(map(student.head, encoded))

    def losses(
        self, first: Tensor, second: Tensor, *further: Tensor, **_: Any
    ) -> dict[str, Tensor]:
        (negated,) = further
        temperature = self.config.temperature
        contrast = augmented_contrast(first, second, negated, temperature=temperature)
        return {"contrastive": contrast}


@register_objective("cotbert", config=CoTBERTConfig, revision=1)
def build(config: CoTBERTConfig, _corpus: Corpus, _: Student) -> CoTBERT:
    return CoTBERT(config)
