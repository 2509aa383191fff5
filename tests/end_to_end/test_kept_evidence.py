import os
import re
from dataclasses import replace
from html import unescape

import pytest
from click.testing import CliRunner, Result
from outside_methods import lay_metadata
from sweeps import CHEAP, write_sweep

from cse_dashboards.page.app import create_app
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.tracking.events import TrialPoint

METHOD = '''
"""A method that prints in every way."""
import ctypes
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

from pydantic import Field

from cse_methods import MethodConfig, Paper, register

WORD = "first"


class Config(MethodConfig):
    temperature: float = Field(default=0.05, gt=0)


@register("chatty", config=Config, paper=Paper("P", "https://a.org", 2026), revision=1)
def train(config, run):
    print(WORD, "printed; password: hunter2")
    ctypes.CDLL(None).puts(b"said by native code")
    subprocess.run(["echo", "said by a child"], check=True)
    logging.getLogger("chatty").warning("logged")
    warnings.warn("warned")
    for percent in range(0, 101, 50):
        print(f"\\r{percent}%", end="", file=sys.stderr)
    print(file=sys.stderr)
    run.report(step=0, metrics={"dev/stsb_spearman": 0.1})
    run.report(step=2, metrics={"dev/stsb_spearman": 0.2}, save=lambda folder: None)
    print("after the last report")
    if config.temperature > 0.5:
        raise RuntimeError("too hot")
    if config.temperature > 0.1:
        print("about to crash", flush=True)
        Path(os.environ["CRASHED"]).touch(exist_ok=False)
        os.kill(os.getpid(), 9)
    return {}
'''


def ask(main: object, *words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)  # type: ignore[arg-type]


SAID = """\
first printed; password: ***
said by native code
said by a child
logged
{chatty}:{line}: UserWarning: warned
  warnings.warn("warned")
100%
after the last report
"""


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_a_trial_keeps_its_source_and_what_it_printed(tmp_path, monkeypatch) -> None:
    chatty = tmp_path / "lab"
    lay_metadata(chatty, "chatty", {"chatty": "chatty"})
    file = chatty / "chatty.py"
    file.write_text(METHOD)
    paths = os.pathsep.join([str(chatty), os.environ.get("PYTHONPATH", "")])
    temperatures = [0.05, 0.3, 0.8]
    search = {"sampler": "grid", "start_from": [{"temperature": each} for each in temperatures]}
    space = {"temperature": temperatures}
    sweep = write_sweep(tmp_path, CHEAP, method="chatty", space=space, search=search)
    sweep = replace(sweep, surroundings={"PYTHONPATH": paths, "CRASHED": str(tmp_path / "crashed")})
    ended = sweep.run()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    runs = ("--runs", str(sweep.runs))
    said = SAID.format(chatty=file, line=1 + METHOD[: METHOD.index("warnings.warn")].count("\n"))

    def printed(number: int, *words: str) -> list[str]:
        done = ask(cse_sweep, "logs", sweep.name, "--trial", str(number), *runs, *words)
        return re.split(r"===.*from step (?:0|2)\n", done.output)

    crash = "about to crash\n"
    assert printed(0, "--follow") == ["", said]
    assert printed(1) == ["", f"{said}{crash}", f"{said}{crash}"]  # the second time it raises
    assert printed(2) == ["", said]
    traceback = (sweep.runs / "sweeps" / sweep.name / "errors" / "trial-2.txt").read_text()
    assert traceback.endswith(f"cse-sweep logs {sweep.name} --trial 2\n")
    assert "--trial 2" in ask(cse_leaderboard, "show", f"{sweep.name}#2", *runs).output
    key = next(key for key, trial in sweep.history().trials.items() if trial.number == 0)
    client = create_app(sweep.stores["leaderboard"]).test_client()
    page = unescape(client.get(f"/trials/{key}").text)
    assert "after the last report" in page and "hunter2" not in page
    assert "The machine by step" in page
    points = sweep.events(TrialPoint)
    assert all(0 < point.metrics["perf/memory_gib"] < 1000 for point in points)
    file.unlink()
    again = ask(cse_leaderboard, "reproduce", f"{sweep.name}#0", "--to", str(tmp_path / "a"), *runs)
    assert "Secrets in method/src/chatty.py are hidden" in again.output
    copy = (tmp_path / "a" / "method" / "src" / "chatty.py").read_text()
    assert copy == METHOD.replace("hunter2", "***")
