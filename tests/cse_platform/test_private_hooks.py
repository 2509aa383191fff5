"""What is used of Ray and Optuna that is not public: all there, or a sweep is refused."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from cse_platform import private_hooks
from cse_platform.cli.sweep import main
from cse_platform.errors import SweepRefusedError
from cse_platform.private_hooks import HOOKS, refuse_missing_hooks

QUICKSTART = Path(__file__).parents[2] / "sweeps" / "quickstart.yaml"


def test_a_sweep_is_refused_before_it_starts_if_a_private_part_is_missing(
    tmp_path, monkeypatch
) -> None:
    refuse_missing_hooks()
    for requirement, hooks in list(HOOKS.items()):
        monkeypatch.setitem(HOOKS, requirement, tuple(f"{hook}_gone" for hook in hooks))
        with pytest.raises(SweepRefusedError) as refused:
            refuse_missing_hooks()
        missed = [hook for hook in hooks if f"{hook}_gone" in str(refused.value)]
        assert missed == list(hooks) and f"pip install '{requirement}'" in str(refused.value)
        monkeypatch.undo()

    imported = list[str]()

    def note_import(name: str) -> ModuleType:
        imported.append(name)
        return import_module(name)

    monkeypatch.setattr(private_hooks, "import_module", note_import)
    refuse_missing_hooks(gaussian_process=False)
    assert imported and not [name for name in imported if "_gp" in name]  # which import torch

    ray, _ = HOOKS
    monkeypatch.setitem(HOOKS, ray, ("ray.tune:Gone._part",))
    command = [str(QUICKSTART), "--runs", str(tmp_path / "runs")]
    done = CliRunner().invoke(main, command)
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "ray.tune:Gone._part" in line and f"'{ray}'" in line
    assert CliRunner().invoke(main, [*command, "--dry-run"]).exit_code == 0
