"""ConSERT's settings: what follows from what, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from cse_methods.papers.consert import ConSERTConfig

PLACES: dict[str, Any] = {"backbone": "mini", "corpus": "builtin", "data": "builtin"}


def test_a_rate_without_a_cutoff_is_refused() -> None:
    settings = PLACES | {"augmentation_1": "none", "cutoff_rate_1": 0.3}
    with pytest.raises(ValidationError, match=r"cutoff_rate_1=0.3 has no effect with augment"):
        ConSERTConfig.model_validate(settings)
    config = ConSERTConfig.model_validate(PLACES)
    assert (config.pooler, config.evaluated_pooler, config.head) == ("avg", "avg_top2", False)
    assert (config.dropout, "cutoff_rate_2" in config.hyperparameters()) == (0, False)
