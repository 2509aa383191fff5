from pathlib import Path

from started_papers import BUILTIN, ON_SICK, start_paper

from cse_methods.contract import BEST_FOLDER
from cse_methods.encoders.convolution import TokenConvolution
from cse_methods.encoders.loading import load_encoder
from cse_methods.papers.isbert import ISBERTConfig
from cse_methods.registry import get_method
from cse_methods.testing import RecordedRun


def test_the_convolutions_are_trained_and_saved(tiny_bert: Path, tmp_path: Path) -> None:
    settings = BUILTIN | {"backbone": str(tiny_bert), "dev": ON_SICK, "batch_size": 8}
    settings |= {"max_steps": 2, "eval_steps": 1, "channels": 5, "kernel_sizes": [1, 3]}
    get_method("isbert").train(ISBERTConfig.model_validate(settings), RecordedRun(tmp_path))
    kept = load_encoder(str(tmp_path / "1" / BEST_FOLDER))
    (layer,) = kept.token_layers
    assert isinstance(layer, TokenConvolution)
    assert (layer.kernel_sizes, layer.channels, kept.width) == ((1, 3), 5, 10)
    assert kept.pooling.pooler == "avg"
    student, objective = start_paper("isbert", tiny_bert, convolution_learning_rate_factor=50)
    (group,) = objective.parameter_groups(student)
    assert (group.members, group.learning_rate_factor) == ([objective.convolution], 50)
