from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field, model_validator

from cse_methods.config import TrainingConfig
from cse_methods.contract import Method, Paper, PublishedSettings, Run
from cse_methods.errors import SettingError
from cse_methods.registry import get_method, register
from cse_methods.training.teachers import TeacherSpec
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.spec import SweepSpec


class ToyConfig(TrainingConfig):
    """`tau3` has an effect in listnet alone."""

    temperature: float = Field(gt=0)
    rank_loss: Literal["listnet", "listmle"] = "listnet"
    tau3: float | None = Field(default=None, gt=0)
    views: int = Field(default=2, ge=1, le=8)
    teachers: tuple[TeacherSpec, ...] = ()
    phrases: str | None = None

    def files(self) -> tuple[str, ...]:
        return () if self.phrases is None else (self.phrases,)

    @model_validator(mode="after")
    def _check_tau3(self) -> "ToyConfig":
        if self.rank_loss == "listmle" and self.tau3 is not None:
            raise SettingError("tau3", f"tau3={self.tau3} has no effect with rank_loss: listmle")
        return self


def _column(rank_loss: str, **settings: Any) -> PublishedSettings:
    return PublishedSettings("mini", settings, "table 1", variant={"rank_loss": rank_loss})


@register(
    "toy",
    config=ToyConfig,
    paper=Paper("Toy", "https://example.org", 2020),
    revision=1,
    published=[
        _column("listnet", temperature=0.05, tau3=0.2, batch_size=128),
        _column("listmle", temperature=0.1),
        PublishedSettings("bert-base", {"temperature": 0.05}, "table 2"),
    ],
)
def train_toy(config: ToyConfig, run: Run) -> dict[str, float]:
    """Learn nothing."""
    return {"dev/stsb_spearman": config.temperature}


@pytest.fixture
def toy() -> Method:
    return get_method("toy")


@pytest.fixture(scope="session")
def shipped() -> dict[Path, tuple[SweepSpec, ...]]:
    """The sweeps of each file that we ship, to be read and not changed."""
    files = sorted((Path(__file__).parents[3] / "sweeps").rglob("*.yaml"))
    return {path: load_sweep(path).stages for path in files}
