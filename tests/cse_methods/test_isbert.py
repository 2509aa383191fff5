"""IS-BERT by hand, and what it keeps at test."""

from pathlib import Path
from typing import Any

from started_papers import BUILTIN, ON_SICK, start_paper

from cse_methods.contract import BEST_FOLDER
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.loading import load_encoder
from cse_methods.papers.isbert import ISBERTConfig
from cse_methods.registry import get_method
from cse_methods.testing import RecordedRun


def settings(backbone: Path, **given: Any) -> dict[str, Any]:
    steps = {"batch_size": 8, "max_steps": 2, "eval_steps": 1}
    return BUILTIN | steps | {"backbone": str(backbone), "dev": ON_SICK} | given


def test_the_convolutions_are_trained_and_saved(tiny_bert: Path, tmp_path: Path) -> None:
    config = ISBERTConfig.model_validate(settings(tiny_bert, channels=5, kernel_sizes=[1, 3]))
    get_method("isbert").train(config, RecordedRun(tmp_path))
    kept = load_encoder(str(tmp_path / "1" / BEST_FOLDER))
    (layer,) = kept.token_layers
    assert isinstance(layer, TokenConvolution)
    assert (layer.kernel_sizes, layer.channels, kept.width) == ((1, 3), 5, 10)
    assert kept.pooling.pooler == "avg"
    student, objective = start_paper("isbert", tiny_bert, convolution_learning_rate_factor=50)
    (group,) = objective.parameter_groups(student)
    assert (group.members, group.learning_rate_factor) == ([objective.convolution], 50)
