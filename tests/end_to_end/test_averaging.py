"""Confirmed seeds whose weights are averaged: a trial of its own, by the real command."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from sweeps import TINY

from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.tracking.history import TrialHistory

# One large step does harm that differs from seed to seed: the average is 2.8 points above the best.
AVERAGED: dict[str, Any] = {
    "fixed": {"max_steps": 1, "eval_steps": 1, "batch_size": 2, "learning_rate": 1e-3},
    "space": {"temperature": [0.05]},
    "dev": {"checkpoint": "stsb", "search": "stsb", "also": []},
    "search": {"sampler": "grid"},
    "seeds": {"search": 42, "confirm": {"top": 1, "seeds": [0], "average": True}},
}


def average_by_hand(seeds: list[TrialHistory]) -> float:
    """The dev score of the mean of the weights, each added as a float64."""
    import torch

    from cse_methods.data.dev_selection import DevSelection
    from cse_methods.encoders.loading import load_encoder
    from cse_methods.training.dev_evaluation import DevSuite

    encoders = [load_encoder(str(trial.model)) for trial in seeds]
    first = encoders[0]
    with torch.no_grad():
        for name, weight in first.named_parameters():
            every = [encoder.get_parameter(name).double() for encoder in encoders]
            weight.copy_(torch.stack(every).mean(dim=0))
    return DevSuite(DevSelection(), data="builtin").evaluate(first)["dev/stsb_spearman"]


@pytest.mark.slow
def test_the_seeds_of_a_confirmation_are_averaged(run_in_process, new_sweep, tmp_path) -> None:
    sweep = new_sweep(tmp_path, TINY, **AVERAGED)
    ran = run_in_process(sweep)
    assert ran.exit_code == 0, ran.output
    assert "the average of the weights of trials 0, 1 has dev" in ran.output
    *seeds, averaged = sweep.history().trials.values()
    assert set(averaged.averages) == {trial.key for trial in seeds}
    assert averaged.best_value == pytest.approx(average_by_hand(seeds), abs=1e-6)
    best = max(trial.best_value or 0 for trial in seeds)
    assert averaged.best_value is not None and averaged.best_value > best + 0.01
    assert averaged.model is not None
    assert "already complete" in run_in_process(sweep).output

    def shown(*words: str) -> str:
        told = CliRunner().invoke(cse_leaderboard, [*words, "--runs", str(sweep.runs)])
        assert told.exit_code == 0, told.output
        return told.output

    own, trained = json.loads(shown("--json"))
    assert (own["averages"]["keys"], trained["averages"]) == ([*averaged.averages], None)
    assert (own["n"], trained["n"]) == (1, 2)
    assert own["averages"]["dev_mean"] == pytest.approx(trained["dev_mean"])
    table = shown()
    assert "simcse (average of 2 seeds)" in table
    gain = 100 * (own["dev_mean"] - trained["dev_mean"])
    assert f"{gain:+.2f} against the mean" in table
    assert "(average of 2 seeds)" in shown("--format", "latex")
    trial = shown("show", averaged.key[:8])
    assert all(seed.key[:8] in trial for seed in seeds)
