"""What is used of Ray and Optuna that is not public: all there, or a sweep is refused."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cse_platform.cli.sweep import main
from cse_platform.errors import SweepRefusedError
from cse_platform.private_hooks import HOOKS, refuse_missing_hooks

ROOT = Path(__file__).parents[2]


def test_the_installed_versions_have_all_of_them() -> None:
    refuse_missing_hooks()


def test_a_name_that_no_version_has_is_missed(monkeypatch) -> None:
    """Whatever its kind, so that each of them is really looked for."""
    for requirement, hooks in list(HOOKS.items()):
        monkeypatch.setitem(HOOKS, requirement, tuple(f"{hook}_gone" for hook in hooks))
        with pytest.raises(SweepRefusedError) as refused:
            refuse_missing_hooks()
        missed = [hook for hook in hooks if f"{hook}_gone" in str(refused.value)]
        assert missed == list(hooks) and f"pip install '{requirement}'" in str(refused.value)
        monkeypatch.undo()


def test_a_sweep_is_refused_before_it_starts_and_a_dry_run_is_not(tmp_path, monkeypatch) -> None:
    ray, _ = HOOKS
    monkeypatch.setitem(HOOKS, ray, ("ray.tune:Gone._part",))
    command = [str(ROOT / "sweeps" / "quickstart.yaml"), "--runs", str(tmp_path / "runs")]
    refused = CliRunner().invoke(main, command)
    (line,) = refused.stderr.splitlines()
    assert (refused.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "ray.tune:Gone._part" in line and f"'{ray}'" in line
    assert CliRunner().invoke(main, [*command, "--dry-run"]).exit_code == 0


@pytest.mark.slow
def test_torch_is_imported_for_a_gaussian_process_alone() -> None:
    script = (
        "import sys; from cse_platform.private_hooks import refuse_missing_hooks as look\n"
        "look(gaussian_process=False); assert 'torch' not in sys.modules\n"
        "look(); assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
