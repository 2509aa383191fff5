"""Takes one step of each configuration on the packaged encoder, to find what no signature says.

It is run as a process of its own: JSON configurations on its standard input, and on its output for
each what the library says against it, or null.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from cse_methods.sentence_transformers_trainer.losses import LOSSES, LossName
from cse_methods.sentence_transformers_trainer.settings import StConfig, StSettings
from cse_methods.sentence_transformers_trainer.trial_process import WIDTH

_TEXTS = ("A nurse reads.", "The pilot sleeps.", "Rain falls.", "Two men play chess.")


def _take_step(config: StSettings) -> None:
    """Compute every loss of a configuration and its gradient; raises whatever the library does."""
    import torch

    from cse_methods.sentence_transformers_trainer.loss_modules import build_losses
    from cse_methods.sentence_transformers_trainer.student import load_student

    model = load_student(config).model.train()
    sets = dict[str, dict[str, Any]]()
    for number, (corpus, loss) in enumerate(zip(config.corpus, config.losses, strict=True)):
        texts = max(len(corpus.columns), LOSSES[loss].fewest)
        sets[f"set{number}"] = {"texts": texts, "label": _make_labels(config, loss, texts)}
    for name, module in build_losses(config, model, sets).items():
        features = [model.preprocess(list(_TEXTS)) for _ in range(sets[name]["texts"])]
        labels = sets[name]["label"]
        found = module(features, None if labels is None else torch.tensor(labels))
        parts = found.values() if isinstance(found, Mapping) else [found]
        torch.autograd.backward(torch.stack(list(parts)).sum())


def _make_labels(config: StSettings, loss: LossName, texts: int) -> list[Any] | None:
    match LOSSES[loss].label:
        case None:
            return None
        case "class":
            return [0, 0, 1, 1]
        case "score":
            return [0.0, 0.25, 0.5, 1.0]
        case "scores":
            return [[float(number) for number in range(texts - 1)]] * len(_TEXTS)
        case "vector":
            width = config.loss_settings(loss).get("projection_dim", WIDTH)
            return [[float(n == number) for n in range(width)] for number in range(len(_TEXTS))]


def main() -> None:
    answers = list[str | None]()
    for settings in json.load(sys.stdin):
        try:
            _take_step(StConfig.model_validate(settings))
        except Exception as problem:  # the library's errors have no common base
            lines = str(problem).strip().splitlines()
            answers.append(lines[0] if lines else type(problem).__name__)
        else:
            answers.append(None)
    sys.stdout.write(f"\n{json.dumps(answers)}\n")


if __name__ == "__main__":
    main()
