from functools import partial
from pathlib import Path

import pytest
import started_papers
import tiny_families
import torch
from pydantic import ValidationError
from torch import nn

from cse_methods.data.dev_selection import DevSelection
from cse_methods.encoders.devices import computing_in
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import Dense
from cse_methods.errors import BackboneError
from cse_methods.papers.simcse import SimCSEConfig
from cse_methods.precision import auto_precision
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.student import Student


def test_auto_precision_follows_the_flags_of_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x86 = "processor\t: 0\nflags\t\t: fpu sse2 {}\n\nprocessor\t: 1\nflags\t\t: fpu\n"
    arm = "processor\t: 0\nFeatures\t: fp asimd {}\nCPU architecture: 8\n"
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr("cse_methods.precision._CPU_INFO", file)
    assert auto_precision(gpu=False) == "fp32"
    for text, expected in (
        *((x86.format(units), "bf16") for units in ("avx512_bf16", "amx_bf16 amx_tile")),
        *((arm.format("bf16"), "bf16"), (arm.format("asimdhp"), "fp32")),
        *((x86.format("avx512_fp16"), "fp32"), ("", "fp32")),
    ):
        file.write_text(text, "utf-8")
        assert auto_precision(gpu=False) == expected


def test_auto_precision_asks_the_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for units in (True, False):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        assert auto_precision(gpu=True) == "bf16"
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr(
            "torch.cuda.is_bf16_supported", lambda *, including_emulation, units=units: units
        )
        assert auto_precision(gpu=True) == auto_precision() == ("bf16" if units else "fp32")


def test_a_dev_point_is_in_the_precision_of_its_trial(tiny_bert: Path) -> None:
    """Its vectors are float32 all the same, those of a dense layer at the end too."""
    encoder = load_encoder(str(tiny_bert))
    encoder = encoder.with_post_pooling(Dense(nn.Linear(encoder.width, 8)))
    sentences = ["A cat sleeps.", "Two dogs run."]
    with computing_in("bf16", encoder.device):
        vectors = encoder.encode(sentences)
    assert vectors.dtype == torch.float32
    assert 0 < (vectors - encoder.encode(sentences)).abs().max() < 0.05
    dev = DevSelection(checkpoint="sickr", search="sickr", also=())
    whole, half = (
        DevSuite(dev, data="builtin", arithmetic=kind).similarities(encoder)["sickr"]
        for kind in ("fp32", "bf16")
    )
    assert whole.dtype == half.dtype == torch.float32
    assert not torch.equal(whole, half)
    torch.testing.assert_close(whole, half, rtol=0, atol=0.05)


def test_a_configuration_stores_what_auto_became() -> None:
    configured = partial(started_papers.configured, "simcse")
    assert configured(precision="auto").hyperparameters()["precision"] == auto_precision()
    with pytest.raises(ValidationError, match="precision"):
        configured(precision="bf8")
    assert configured().arithmetic == configured(tf32=True).arithmetic == "tf32"
    assert configured(tf32=False).arithmetic == "fp32"
    assert configured(precision="bf16").arithmetic == "bf16"
    assert configured(tf32=False).hyperparameters()["tf32"] is False


def test_a_family_without_half_precision_is_refused(tmp_path: Path) -> None:
    for precision in ("bf16", "fp16"):
        tiny_families.save_tiny("deberta", tmp_path)
        settings = {"backbone": str(tmp_path), "corpus": "builtin", "max_length": 16}
        told = f"family 'deberta', which does not run in {precision}; set precision: fp32"
        with pytest.raises(BackboneError, match=told):
            check_encoder(str(tmp_path), precision=precision)
        with pytest.raises(BackboneError, match=told):
            Student.from_config(SimCSEConfig.model_validate(settings | {"precision": precision}))
        check_encoder(str(tmp_path), precision="fp32")
        Student.from_config(SimCSEConfig.model_validate(settings))
