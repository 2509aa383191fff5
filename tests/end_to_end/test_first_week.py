import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import blocks
from outside_methods import lay_metadata
from packaging.requirements import Requirement
from processes import SECONDS, environment, script

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.data.dev_sets import load_dev_set
from cse_methods.evaluation.test_sets.pairs import load_pair_set

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
def test_the_first_week_works_as_its_page_says(tmp_path: Path) -> None:
    """Every command in its order, but for pip, whose environment is made of what is here."""
    package = tmp_path / "labcse"
    python = Path(sys.executable)
    (tmp_path / "my-corpus.txt").write_text("\n".join(builtin_corpus()[:400]))
    dev, test = load_dev_set("stsb", "builtin"), load_pair_set("sickr", "builtin")
    for name, pairs in (("my-dev", dev), ("my-test", test)):
        rows = zip(pairs.first, pairs.second, pairs.gold, strict=True)
        (tmp_path / f"{name}.tsv").write_text("".join(f"{a}\t{b}\t{c}\n" for a, b, c in rows))
    printed: dict[str, str] = {}
    for block in blocks(ROOT / "docs" / "first-week.md"):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.body)
        lines = block.body.splitlines() if block.language == "sh" else []
        for line in lines:
            name, *arguments = shlex.split(line)
            if line == "cse-dashboard":  # it serves until it is stopped
                continue
            if name == "pip":
                project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
                asked = project["dependencies"] + project["optional-dependencies"]["test"]
                python = fresh_environment(tmp_path / "venv", asked, package)
                lay_metadata(package, "labcse", {"labcse": "labcse"})
                continue
            command = [python, "-m", name] if name == "pytest" else [script(name)]
            env = environment() | {"PYTHONPATH": str(package)}
            how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": SECONDS}
            done = subprocess.run([*command, *arguments], cwd=tmp_path, env=env, **how)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            printed[line] = done.stdout
    assert "9 passed" in printed["pytest labcse"]
    assert "my-first: complete, " in printed["cse-sweep my-first.yaml --trials 3"]
    assert "labcse" in printed["cse-leaderboard --tasks own"]
    assert {path.name for path in (tmp_path / "my-encoder").iterdir()} >= {"README.md"}
    assert (tmp_path / "pictures" / "report.html").exists() and (tmp_path / "again").is_dir()
