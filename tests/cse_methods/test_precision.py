"""`precision: auto` is what a machine has units for; one family has no half precision."""

from pathlib import Path

import pytest
import tiny_families
from pydantic import ValidationError

from cse_methods.encoders.reading import check_encoder
from cse_methods.errors import BackboneError
from cse_methods.papers.simcse import SimCSEConfig
from cse_methods.precision import auto_precision
from cse_methods.training.student import Student

X86 = "processor\t: 0\nflags\t\t: fpu sse2 {}\n\nprocessor\t: 1\nflags\t\t: fpu\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd {}\nCPU architecture: 8\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (X86.format("avx512_bf16"), "bf16"),
        (X86.format("amx_bf16 amx_tile"), "bf16"),
        (X86.format("avx512_fp16"), "fp32"),
        (ARM.format("bf16"), "bf16"),
        (ARM.format("asimdhp"), "fp32"),
        ("", "fp32"),
        (None, "fp32"),
    ],
)
def test_what_a_processor_says_of_itself(
    text: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text, "utf-8")
    monkeypatch.setattr("cse_methods.precision._CPU_INFO", file)
    assert auto_precision(gpu=False) == expected


@pytest.mark.parametrize("units", [True, False])
def test_a_gpu_is_asked_where_there_is_one(units: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert auto_precision(gpu=True) == "bf16"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda *, including_emulation: units)
    assert auto_precision(gpu=True) == auto_precision() == ("bf16" if units else "fp32")


def test_a_configuration_has_what_auto_became() -> None:
    settings = {"backbone": "mini", "corpus": "builtin", "precision": "auto"}
    config = SimCSEConfig.model_validate(settings)
    assert config.hyperparameters()["precision"] == auto_precision()
    with pytest.raises(ValidationError, match="precision"):
        SimCSEConfig.model_validate(settings | {"precision": "bf8"})


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_family_that_has_no_half_precision(precision: str, tmp_path: Path) -> None:
    tiny_families.save_tiny("deberta", tmp_path)
    settings = {"backbone": str(tmp_path), "corpus": "builtin", "max_length": 16}
    told = f"family 'deberta', which does not run in {precision}; set precision: fp32"
    with pytest.raises(BackboneError, match=told):
        check_encoder(str(tmp_path), precision=precision)
    with pytest.raises(BackboneError, match=told):
        Student.from_config(SimCSEConfig.model_validate(settings | {"precision": precision}))
    check_encoder(str(tmp_path), precision="fp32")
    Student.from_config(SimCSEConfig.model_validate(settings))
