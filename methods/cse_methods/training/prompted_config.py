"""Settings of methods that take a sentence's vector from the mask of a prompt."""

from typing import Self

from pydantic import model_validator

from cse_methods.config import TwoViewConfig
from cse_methods.encoders.poolers import Pooler
from cse_methods.encoders.template import prompt_problem
from cse_methods.errors import SettingError
from cse_methods.settings import released


class PromptedConfig(TwoViewConfig):
    """Settings of a method that reads each of two views in a prompt of its own."""

    pooler: Pooler = released("mask", "how the vectors of tokens become one vector")
    prompts: tuple[str, str] = released(
        ..., "prompts around a sentence in its two views; the first is used at test time"
    )

    @model_validator(mode="after")
    def _refuse_other_prompts_and_poolers(self) -> Self:
        for problem in filter(None, map(prompt_problem, self.prompts)):
            raise SettingError("prompts", problem)
        tested = self.test_prompt()
        if self.prompt is not None and tested != self.prompt:
            raise SettingError(
                "prompt", "this method has prompts of its own; set prompts, and leave prompt out"
            )
        if tested is not None and self.pooler != "mask":
            raise SettingError(
                "pooler",
                f"a prompt is read at its mask, got pooler={self.pooler}; leave pooler out",
            )
        return self

    def test_prompt(self) -> str | None:
        return self.prompts[0]
