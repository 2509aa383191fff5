"""Takes one step of each configuration on the packaged encoder, to find what no signature says.

It is run as a process of its own: JSON configurations on its standard input, and on its output for
each what the library says against it, or null. The process that asks need not import the library.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cse_methods.errors import TrainingError
from cse_methods.sentence_transformers_trainer.losses import LOSSES, LossName
from cse_methods.sentence_transformers_trainer.settings import StConfig, StSettings

TRIED_ON = "mini"
WIDTH = 192
"""Of the vectors of `mini`."""
_TEXTS = ("A nurse reads.", "The pilot sleeps.", "Rain falls.", "Two men play chess.")


def try_steps(configs: Sequence[StSettings]) -> list[str | None]:
    """Find out for each configuration what the library says against a step; None if nothing.

    TrainingError if the library cannot be tried.
    """
    asked = [config.model_dump(mode="json") | _small_settings(config) for config in configs]
    tried = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        reason = (tried.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise TrainingError(f"sentence-transformers cannot be tried: {reason}")
    answers: list[str | None] = json.loads(tried.stdout.splitlines()[-1])
    return answers


def _small_settings(config: StSettings) -> dict[str, Any]:
    """Return the settings that are replaced to fit the packaged encoder."""
    changes: dict[str, Any] = {
        "backbone": TRIED_ON,
        "max_length": 32,
        "guide": config.guide and TRIED_ON,
        "teacher": config.teacher and TRIED_ON,
    }
    if config.matryoshka is not None:
        changes["matryoshka"] = [WIDTH - number for number in range(len(config.matryoshka))]
    return changes


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
