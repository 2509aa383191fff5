"""`cse-sweep new-method`: what it writes, and the names and folders that it refuses."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from outside_methods import lay_metadata

from cse_platform.cli.sweep import main


def typed(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["new-method", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return result


def test_the_name_is_that_of_method_module_and_entry_point(tmp_path: Path) -> None:
    written = typed("my_cse2", tmp_path / "new" / "folder")
    assert written.exit_code == 0, written
    names = ["pyproject.toml", "my_cse2.py", "test_my_cse2.py", "my_cse2.yaml"]
    files = [tmp_path / "new" / "folder" / name for name in names]
    assert written.stdout.splitlines()[:4] == [str(file) for file in files]
    project = tomllib.loads(files[0].read_text())["project"]
    assert project["entry-points"]["cse.methods"] == {"my_cse2": "my_cse2"}
    module = files[1].read_text()
    compile(module, "my_cse2.py", "exec")
    assert "class MyCse2Config(TrainingConfig)" in module
    assert '@register_objective(\n    "my_cse2",' in module


def test_an_empty_folder_is_as_good_as_a_new_one(tmp_path: Path) -> None:
    assert typed("labcse", tmp_path).exit_code == 0
    again = typed("labcse", tmp_path)
    assert (again.exit_code, again.stdout) == (1, "")
    assert f"{tmp_path} has something in it already (labcse.py, " in again.stderr


REASONS = {
    "simcse": "a built-in method",
    "theirs": "an installed package has a method",
    "json": "a module of Python",
    "torch": "a module of this name is installed",
    "conftest": "pytest",
    "test_cse": "pytest",
    "null": "YAML",
    **dict.fromkeys(("LabCSE", "a-b", "1cse", "import", "x_"), "lower-case Python name"),
    **dict.fromkeys(("", "a b", "../cse", "cse\n", "ça"), "lower-case Python name"),
}


def test_names_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_metadata(tmp_path / "site", "their_lab", {"theirs": "their_lab"})
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name, reason in REASONS.items():
        refused = typed(name, tmp_path / "new")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.startswith(f"Error: a new method cannot be named {name!r}: ")
        assert reason in refused.stderr
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = typed("labcse", tmp_path / "file" / "labcse")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "labcse cannot be written: " in refused.stderr
