"""A new method from its command to a complete sweep, without a line changed."""

import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from outside_methods import lay_metadata
from packaging.requirements import Requirement
from processes import SECONDS, environment, run_command, script

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / folder for folder in ("methods", "platform", "dashboards")]


def fresh_environment(folder: Path, requirements: list[str], method: Path) -> Path:
    """The Python of an environment as pip leaves it: what is asked for, linked to what is here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    known: set[tuple[str, str]] = set()
    wanted = [Requirement(text) for text in requirements]
    while wanted:
        asked = wanted.pop()
        for extra in {"", *asked.extras} - {e for name, e in known if name == asked.name}:
            known.add((asked.name, extra))
            further = map(Requirement, distribution(asked.name).requires or [])
            wanted += [
                r for r in further if r.marker is None or r.marker.evaluate({"extra": extra})
            ]
    for found in (distribution(name) for name in {name for name, _ in known}):
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists() and not top.endswith(".pth"):
                (site / top).symlink_to(Path(str(found.locate_file(top))))
    (site / "editable.pth").write_text("\n".join(map(str, (*SOURCES, method))))
    return folder / "bin" / "python"


@pytest.mark.slow
def test_a_new_method_passes_its_tests_and_completes_its_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "a lab" / "labcse"
    written = run_command("cse-sweep", "new-method", "labcse", str(folder))
    assert written.returncode == 0
    said = dict(line.split(":  ") for line in written.stdout.splitlines() if ":  " in line)
    installed = Requirement(Path(shlex.split(said["Install it"])[-1]).name)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = project["dependencies"] + [one for extra in installed.extras for one in extras[extra]]
    python = fresh_environment(tmp_path / "venv", asked, folder)
    lay_metadata(folder, "labcse", {"labcse": "labcse"})

    def run(*command: str) -> str:
        done = subprocess.run(
            command,
            env=environment() | {"PYTHONPATH": str(folder)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    tested = run(str(python), "-m", *shlex.split(said["Test it"].strip()), "-p", "no:cacheprovider")
    assert "9 passed" in tested
    searched = run(script("cse-sweep"), str(folder / "labcse.yaml"), "--set", "search.trials=2")
    assert "labcse-mini: complete, 2 trials (2 complete)" in searched
    assert "labcse" in run(script("cse-leaderboard"), "--json")
