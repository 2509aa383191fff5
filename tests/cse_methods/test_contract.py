import math
import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from pydantic import Field, ValidationError

from cse_methods.config import Above, Conditions, TrainingConfig
from cse_methods.describe import setting_rows
from cse_methods.registry import available_methods, get_method
from cse_methods.settings import record_reads
from cse_methods.testing import RecordedRun, TrainedOnce, reads_its_settings


def configured(**settings: Any) -> TrainingConfig:
    return TrainingConfig.model_validate({"backbone": "mini", "corpus": "builtin"} | settings)


def test_the_head_follows_the_pooler() -> None:
    assert configured().head is configured(pooler="cls").head is True
    assert configured(pooler="avg").head is configured(pooler="avg_first_last").head is False
    assert configured(pooler="avg", head=True).head is True
    assert configured(head=False).head is False


def test_a_refused_setting_is_named_by_its_path() -> None:
    refused: dict[str, Any] = {
        **{"learning_rat": 1e-5, "learning_rate": math.inf, "batch_size": 1, "epochs": 0},
        **{"max_steps": 0, "warmup_ratio": 1, "max_grad_norm": 0, "dropout": 1},
        **{"gradient_accumulation": 0, "precision": "fp64", "pooler": "max", "corpus": []},
        **{"dev.search": "sts12", "backbone": ""},
    }
    places = {}
    for place, value in refused.items():
        setting, _, within = place.partition(".")
        with pytest.raises(ValidationError) as caught:
            configured(**{setting: {within: value} if within else value})
        places[place] = [".".join(map(str, one["loc"])) for one in caught.value.errors()]
    assert places == {place: [place] for place in refused}


def test_hyperparameters_leave_out_fixed_and_inactive_settings() -> None:
    values = configured(learning_rate=1e-5).hyperparameters()
    assert values["learning_rate"] == 1e-5
    assert values["batch_size"] == 64
    assert not {"backbone", "corpus", "data", "dev"} & set(values)
    assert not {"dropout", "max_steps"} & set(values)
    chosen = configured(max_grad_norm=None)  # a null that was chosen stays
    assert chosen.hyperparameters()["max_grad_norm"] is None
    assert configured(**chosen.hyperparameters()) == chosen


class Weighted(TrainingConfig):
    """A rate that means nothing where its loss weighs nothing."""

    conditions: ClassVar[Conditions] = {"mask_rate": {"mlm_weight": Above(0)}}

    mlm_weight: float | None = Field(default=0.1, ge=0, description="weight of a further loss")
    mask_rate: float = Field(default=0.15, gt=0, lt=1, description="share of masked pieces")


@pytest.mark.parametrize("weight", [0, None])
def test_a_condition_may_be_a_comparison(weight: float | None) -> None:
    origin = {"backbone": "mini", "corpus": "builtin"}
    rated = Weighted.model_validate(origin | {"mlm_weight": 1e-9, "mask_rate": 0.3})
    assert rated.hyperparameters()["mask_rate"] == 0.3
    without = Weighted.model_validate(origin | {"mlm_weight": weight})
    assert "mask_rate" not in without.hyperparameters()
    (row,) = [one for one in setting_rows(Weighted) if one.name == "mask_rate"]
    assert row.only_with == "mlm_weight: > 0"
    message = r"no effect with mlm_weight: .*; .* search it `when: {mlm_weight: '> 0'}`"
    with pytest.raises(ValidationError, match=message):
        Weighted.model_validate(origin | {"mlm_weight": weight, "mask_rate": 0.3})


def test_recorded_settings_note_their_first_read_and_behave_alike() -> None:
    plain = configured(batch_size=16)
    recorded, read = record_reads(plain)
    assert isinstance(recorded, TrainingConfig)
    assert recorded.model_dump_json() == plain.model_dump_json()  # which fingerprints a checkpoint
    assert (plain.epochs, read) == (1, set())
    assert (recorded.batch_size, read) == (16, {"batch_size"})
    assert vars(type(recorded)).keys() & {"batch_size", "epochs"} == {"epochs"}  # no cost any more
    for n, copied in enumerate((recorded.model_copy(update={"epochs": 9}), deepcopy(recorded))):
        assert (copied.batch_size, copied.warmup_ratio) == (16, 0)
        assert copied.epochs == (9, 1)[n]
    assert read == {"batch_size", "epochs", "warmup_ratio"}
    recorded.model_dump(include={"precision", "epochs"})
    assert read == {"batch_size", "epochs", "warmup_ratio", "precision"}
    with pytest.raises(ValidationError, match="frozen"):
        recorded.patience = 3
    unpickled = pickle.loads(pickle.dumps(recorded))
    assert (type(unpickled), unpickled) == (TrainingConfig, plain)


def test_the_checks_find_a_setting_that_nothing_reads(tmp_path: Path) -> None:
    method = get_method("simcse")
    config = method.config.model_validate({"backbone": "mini", "corpus": "builtin"})
    own = {*config.hyperparameters()} - TrainingConfig.model_fields.keys()
    assert "temperature" in own

    def check(*unread: str) -> None:
        read = frozenset(own - set(unread))
        reads_its_settings(TrainedOnce(method, config, RecordedRun(tmp_path, 0), {}, read))

    check()
    with pytest.raises(AssertionError, match="nothing read temperature"):
        check("temperature")


def test_published_configurations_survive_json() -> None:
    """So a worker, and whoever copies the values of a row, gets the very same configuration."""
    nli = {"name": "nli", "columns": ["sent0", "sent1", "hard_neg"]}
    for method in map(get_method, available_methods()):
        is_paper = method.name not in ("macl", "st", "untrained")  # no paper has settings
        assert bool(method.published) == is_paper, method.name
        for column in method.published:
            corpus = nli if method.name in ("multicsr", "pna") else "wiki1m"
            origin = {"backbone": column.backbone, "corpus": corpus}
            config = method.config.model_validate(origin | dict(column.settings))
            assert method.config.model_validate_json(config.model_dump_json()) == config
            assert method.config.model_validate(origin | config.hyperparameters()) == config


def test_the_checks_find_steps_that_do_not_rise_and_metrics_that_are_no_numbers(tmp_path) -> None:
    run = RecordedRun(tmp_path)
    run.report(step=4, metrics={"dev/stsb_spearman": 0.5, "train/x": torch.tensor(1.0)})
    for step in (4, 2):
        with pytest.raises(AssertionError, match=f"step {step} .* after step 4"):
            run.report(step=step, metrics={"dev/stsb_spearman": 0.6})
    with pytest.raises(ValueError, match="train/lr = None"):
        run.report(step=6, metrics={"dev/stsb_spearman": 0.6, "train/lr": None})  # type: ignore[dict-item]
