"""The folder that the pages' commands run in: a checkout after `make quickstart`.

Nothing is trained for it. `recorded/` holds the journals of real sweeps, made by `doc_record.py`;
the leaderboard is filled from them as `cse-sweep` fills it.
"""

import atexit
import gzip
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner
from doc_blocks import PAGES, ROOT, Block, blocks, excerpt

RECORDED = Path(__file__).parent / "recorded"
QUICKSTART = RECORDED / "quickstart.txt"
HOME = "/home/you/cse-platform"
"""What the pages call the checkout."""


def scripts() -> dict[str, click.Command]:
    return {
        script.name: script.load()
        for script in entry_points(group="console_scripts")
        if script.name.startswith("cse-")
    }


@cache
def shared_build() -> Path:
    """The prepared checkout, made once in a process; each test works on a copy."""
    folder = tempfile.TemporaryDirectory(prefix="documents-")
    atexit.register(folder.cleanup)
    return build(Path(folder.name))


def build(folder: Path) -> Path:
    """Make the checkout of the pages, and the runs of a colleague beside it, for `page_world`."""
    from cse_methods.encoders.loading import load_encoder
    from cse_platform.leaderboard import open_leaderboard

    checkout = folder / "world" / "cse-platform"
    checkout.mkdir(parents=True)
    (checkout / "sweeps").symlink_to(ROOT / "sweeps")
    fill_store(checkout / "runs", "quickstart-simcse", "quickstart-rankcse")
    fill_store(folder / "world" / "colleague" / "runs", "colleague-esimcse")
    with open_leaderboard(f"sqlite:///{checkout / 'runs' / 'leaderboard.db'}") as board:
        best = board.sweep("quickstart-simcse").best
    assert best is not None
    models = checkout / "runs" / "artifacts" / "models"  # where the best trial has its model
    load_encoder("mini", pooler="avg").save(models / best.key[:16])
    shutil.copytree(RECORDED / "files", checkout, dirs_exist_ok=True)
    (folder / "world").rename(folder / "pristine")
    return folder


def fill_store(runs: Path, *sweeps: str) -> None:
    """Put the recorded journals of these sweeps into a runs folder, and fill its leaderboard."""
    from cse_platform.stores.sql.sink import LeaderboardSink, apply_journal
    from cse_platform.stores.sql.store import open_store

    with open_store(f"sqlite:///{runs / 'leaderboard.db'}") as store:
        for sweep in sweeps:
            journal = runs / "sweeps" / sweep / "journal.jsonl"
            journal.parent.mkdir(parents=True)
            recorded = gzip.decompress((RECORDED / f"{sweep}.jsonl.gz").read_bytes()).decode()
            journal.write_text(recorded.replace(HOME, str(runs.parent)))
            apply_journal(LeaderboardSink(store), journal)


@cache
def _remember_draws() -> Callable[..., Any]:
    """The draws over examples, computed once in a process: many outputs show the same ones."""
    from cse_platform.leaderboard.statistics import resampling

    compute, known = resampling.draw_scores, {}

    def draw(task: str, *given: Any, resamples: int, seed: int, progress: Any = None) -> Any:
        arrays = (each.tobytes() if hasattr(each, "tobytes") else each for each in given)
        key = (task, *arrays, resamples, seed)
        if key not in known:
            known[key] = compute(task, *given, resamples=resamples, seed=seed)
        if progress is not None:
            progress(known[key].size)
        return known[key].copy()

    return draw


@contextmanager
def page_world(built: Path) -> Iterator[None]:
    """A fresh checkout as the working directory, without network and CSE_ variables."""
    shutil.copytree(built / "pristine", built / "world", symlinks=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CSE_")}
    before = Path.cwd()
    with (
        patch.dict(os.environ, kept | {"TZ": "UTC"}, clear=True),
        patch("huggingface_hub.constants.HF_HUB_CACHE", str(built / "hub")),
        patch(
            "cse_platform.leaderboard.statistics.intervals.draw_scores",
            new_callable=lambda: _remember_draws(),
        ),
    ):
        time.tzset()
        os.chdir(built / "world" / "cse-platform")
        try:
            yield
        finally:
            os.chdir(before)
            shutil.rmtree(built / "world")
    time.tzset()


def output(command: str) -> str:
    """What a command prints in the working directory: to a pipe, if it ends in `| …`.

    Raises:
        AssertionError: if its exit code and an `Error:` in its output do not agree.
    """
    command = command.replace("\\\n", " ")
    if command == "make quickstart":
        return QUICKSTART.read_text(encoding="utf-8")
    typed, pipe, rest = command.partition(" | ")
    script, *arguments = shlex.split(typed, comments=True)
    with patch("waitress.create_server"):  # `cse-dashboard` says its address, and ends at once
        result = CliRunner().invoke(scripts()[script], arguments, prog_name=script)
    refused = any(line.startswith(("Error:", "Usage:")) for line in result.output.splitlines())
    assert (result.exit_code != 0) == refused, (command, result.output, result.exception)
    if not pipe:
        return result.output.replace(str(Path.cwd()), HOME)
    done = subprocess.run(
        rest, shell=True, input=result.stdout, capture_output=True, text=True, check=True
    )
    return (result.stderr + done.stdout).replace(str(Path.cwd()), HOME)


def true_body(block: Block) -> str:
    """A console block with the output that its commands have now."""
    return "".join(
        f"$ {step.command}\n{excerpt(output(step.command), block.lines)}" for step in block.steps
    )


def agrees(shown: str, printed: str, *, tolerance: float) -> bool:
    """Whether two texts are the same, but for numbers that differ by so much at most."""
    number = r"-?\d+\.\d+"
    pairs = zip(re.findall(number, shown), re.findall(number, printed), strict=False)
    return re.sub(number, "", shown) == re.sub(number, "", printed) and all(
        abs(float(a) - float(b)) <= tolerance for a, b in pairs
    )


def run_python(block: Block) -> str:
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        exec(compile(block.body, block.name, "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def write_file(block: Block) -> None:
    """Put a YAML block that names its file where the commands find it."""
    assert block.file is not None
    Path(block.file).parent.mkdir(parents=True, exist_ok=True)
    Path(block.file).write_text(block.body, encoding="utf-8")


def rewrite_all(folder: Path) -> None:
    """Write the console blocks of all pages anew, in a temporary folder of the caller."""
    built = build(folder)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        changed, last = "", 0
        with page_world(built):
            for block in blocks(page):
                if block.file is not None:
                    write_file(block)
                if block.language == "console":
                    changed += text[last : block.start] + true_body(block)
                    last = block.end
        page.write_text(changed + text[last:], encoding="utf-8")
