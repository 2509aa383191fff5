"""st: any encoder on any loss, trained by sentence-transformers' own trainer.

Paper: Reimers and Gurevych, EMNLP 2019, https://arxiv.org/abs/1908.10084, which the library
accompanies; each loss has a paper of its own, which the library's documentation names.
It has other families of encoders, losses and wrappers than the fast methods, and takes longer a
step.
"""

from cse_methods.contract import Run
from cse_methods.registry import register
from cse_methods.sentence_transformers_trainer.settings import StConfig, StSettings


@register("st", config=StConfig, revision=1)
def train(config: StSettings, run: Run) -> dict[str, float]:
    """Train by the library; returns the dev metrics of the best checkpoint."""
    # Takes seconds to import, which what only reads settings does not need.
    from cse_methods.sentence_transformers_trainer.training import train_by_library

    return train_by_library(config, run)
