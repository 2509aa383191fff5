"""A sweep that keeps its checkpoints and models in an object store."""

from dataclasses import replace
from pathlib import Path

import pytest
from object_store import *  # noqa: F403
from processes import end_of
from store_contents import assert_stores_agree

from cse_platform.tracking.events import TrialPoint


@pytest.mark.slow
def test_a_killed_driver_goes_on_from_the_object_store(
    new_sweep,
    tmp_path: Path,
    bucket: Bucket,  # noqa: F405
) -> None:
    gate = tmp_path / "gate"
    gate.write_text("2")
    one_trial = {"space": {}, "search": {"sampler": "random", "trials": 1}}
    written = new_sweep(
        tmp_path, storage=f"{bucket.uri}/cse", fixed={"gate": str(gate)}, **one_trial
    )
    sweep = replace(written, surroundings=bucket.environment)
    with end_of(sweep.start()) as process:
        sweep.wait_for(process, TrialPoint, 2)
        process.kill()
    gate.write_text("6")
    ended = sweep.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    (trial,) = sweep.history().trials.values()
    assert (trial.state, trial.resumed_from, sorted(trial.curve)) == ("COMPLETE", 2, [0, 2, 4, 6])
    assert trial.model is not None and trial.model.startswith(f"{bucket.uri}/cse/artifacts/models/")
    folder = trial.model.removeprefix(f"{bucket.uri}/")
    assert bucket.names() == [f"{folder}/cse_trial.txt", f"{folder}/model.json"]
    assert not (tmp_path / "runs" / "artifacts" / "models").exists()
    assert_stores_agree(sweep)
    told = [path for path in tmp_path.rglob("*") if path.is_file()]
    secret = bucket.environment["AWS_SECRET_ACCESS_KEY"].encode()
    assert not [path for path in told if secret in path.read_bytes()]
