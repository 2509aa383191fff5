from pathlib import Path
from typing import Any

import cheap as _registers_it  # noqa: F401
import pytest
from sweeps import CHEAP

from cse_platform import SweepSpec, run_sweep
from cse_platform.errors import SweepFileError


def test_a_sweep_from_python_runs_and_goes_on(run_in_process, tmp_path, capsys) -> None:
    """The second call raises the budget of the first one."""
    for trials in (2, 3):
        search: dict[str, Any] = CHEAP["search"] | {"trials": trials}
        spec = SweepSpec.model_validate(CHEAP | {"search": search})
        rows = run_sweep(spec, runs=tmp_path / "runs")
        assert sum(row.trials for row in rows) == trials
    assert "tiny: complete, 3 trials" in capsys.readouterr().out


def test_what_is_wrong_with_a_sweep_from_python_is_named(tmp_path: Path) -> None:
    spec = SweepSpec.model_validate(CHEAP | {"fixed": {"temperatur": 0.1}})
    with pytest.raises(SweepFileError) as raised:
        run_sweep(spec, runs=tmp_path)
    heading, problem = str(raised.value).splitlines()
    assert heading == "tiny is not a sweep:"
    assert problem.startswith("  SweepSpec, fixed.temperatur: ")
