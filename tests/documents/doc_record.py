"""Records anew what the pages stand on: the quickstart and a sweep of a colleague.

Launch: python tests/documents/doc_record.py, on a clean checkout; it takes about three minutes.
Run `make docs` afterwards. The machine's name, user and folders are replaced, where the code was
cloned from is left out, and the pages' trials get their new keys.

The baselines of doc_baselines.py need real data and take minutes. Run the first stage of

    CSE_DATA=DATA cse-sweep sweeps/mini-rankcse.yaml --set stages.0.corpus.name=wiki_sentences

and then, with the same CSE_DATA, `keep_journals(Path("runs"))`.
"""

import getpass
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doc_blocks import PAGES, ROOT
from doc_world import HOME, QUICKSTART, RECORDED

COLLEAGUE = {
    "sweep": "colleague-esimcse", "method": "esimcse", "backbone": "mini", "corpus": "builtin",
    "data": "builtin",
    "fixed": {"pooler": "avg", "batch_size": 64, "max_steps": 20, "eval_steps": 10},
    "space": {"learning_rate": {"low": 1e-4, "high": 1e-3, "log": True}},
    "search": {"sampler": "random", "trials": 2, "seed": 7},
    "seeds": {"confirm": {"top": 1, "seeds": [0, 1]}}, "evaluate": {"top": 1, "tasks": ["sts"]},
}  # fmt: skip


def main() -> None:
    """Run both, and keep their journals and what the quickstart printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "colleague.yaml"
        file.write_text(json.dumps(COLLEAGUE))  # JSON is YAML
        printed = _run("sweeps/quickstart.yaml", folder / "runs")
        _run(str(file), folder / "runs")
        keep(folder / "runs", printed)


def _run(file: str, runs: Path) -> str:
    command = [str(Path(sys.executable).with_name("cse-sweep")), file, "--runs", str(runs)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CSE_")}
    done = subprocess.run(
        command, cwd=ROOT, env=kept, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def keep(runs: Path, printed: str) -> None:
    """Write the recording from a runs folder and the output of the quickstart."""
    QUICKSTART.write_text(
        f".venv/bin/cse-sweep sweeps/quickstart.yaml\n{_scrubbing(runs)(printed)}"
    )
    keep_journals(runs)


def keep_journals(runs: Path) -> None:
    """Write the recording of each journal of a runs folder."""
    scrub = _scrubbing(runs)
    for journal in runs.glob("sweeps/*/journal.jsonl"):
        recorded = RECORDED / f"{journal.parent.name}.jsonl.gz"
        lines = [json.dumps(_walk(json.loads(line), scrub)) for line in journal.open()]
        if recorded.exists():
            _rename_trials(gzip.decompress(recorded.read_bytes()).decode().splitlines(), lines)
        recorded.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), mtime=0))


def _rename_trials(before: Sequence[str], now: Sequence[str]) -> None:
    """In the commands of the pages: other code gives a trial another key.

    A trial of a number that there is no more becomes the last one.
    """
    old, new = map(_keys, (before, now))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, key in old.items():
            text = text.replace(key[:8], new.get(number, new[max(new)])[:8])
        page.write_text(text, encoding="utf-8")


def _keys(journal: Sequence[str]) -> dict[int, str]:
    events = [json.loads(line) for line in journal]
    return {one["number"]: one["trial"] for one in events if one.get("kind") == "trial_started"}


def _scrubbing(runs: Path) -> Any:
    places = {
        str(runs): f"{HOME}/runs",
        str(ROOT): HOME,
        f"{getpass.getuser()}@{socket.gethostname()}": "you@laptop",
    }
    if "CSE_DATA" in os.environ:
        places[os.environ["CSE_DATA"]] = f"{HOME}/data"

    def scrub(text: str) -> str:
        for place, name in places.items():
            text = text.replace(place, name)
        host = re.escape(socket.gethostname())
        return re.sub(rf"(?<![\w+/]){host}(?![\w+/])", "laptop", text)  # cosines are base64

    return scrub


def _walk(value: Any, scrub: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [_walk(one, scrub) for one in value]
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not name.endswith("_remote")}
        return {name: _walk(one, scrub) for name, one in kept.items()}
    return value


if __name__ == "__main__":
    main()
