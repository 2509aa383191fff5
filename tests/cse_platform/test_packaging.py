"""What an installation gets: the wheel has every file that the code reads, as has the image."""

import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
DOCKERFILE = (ROOT / "platform" / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")


def instructions(name: str) -> list[str]:
    """The arguments of each instruction of that name in the Dockerfile."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def tracked() -> set[str]:
    """Every file of our packages, as it stands in a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", *WHEEL["packages"]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {file.partition("/")[2] for file in listed.stdout.splitlines()}


def test_all_files_of_all_packages_are_declared() -> None:
    """hatchling takes whole packages; an option that leaves files out would leave data out."""
    assert {"packages": PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]} == WHEEL
    assert [Path(package).name for package in WHEEL["packages"]] == (
        PROJECT["tool"]["importlinter"]["root_packages"]
    )
    assert PROJECT["tool"]["hatch"]["build"].keys() == {"targets"}
    suffixes = {Path(file).suffix for file in tracked()}
    assert {".j2", ".csv", ".safetensors", ".html", ".json", ".typed", ".css"} <= suffixes


def test_the_image_copies_what_is_there_and_installs_what_is_declared() -> None:
    for copied in instructions("COPY"):
        *sources, _ = copied.split()
        assert all((ROOT / source).exists() for source in sources)
    copied_all = {source for line in instructions("COPY") for source in line.split()[:-1]}
    roots = {Path(package).parts[0] for package in WHEEL["packages"]}
    assert {"pyproject.toml", "constraints.txt", PROJECT["project"]["readme"], *roots} <= copied_all
    assert set(PROJECT["project"]["license-files"]) <= copied_all
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert set(extras.split(",")) <= PROJECT["project"]["optional-dependencies"].keys()
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert instructions("FROM") == [f"python:{python}-slim"]


@pytest.mark.slow
def test_the_wheel_has_every_file(tmp_path: Path) -> None:
    """Needs an index of packages, for the build backend."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*build, str(tmp_path), str(ROOT)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    assert tracked() <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.slow
def test_the_image_s_commands_install_into_a_clean_folder(tmp_path: Path) -> None:
    """What `docker build` does, without docker: its files, and its pip commands, in their order.

    Needs an index of packages.
    """
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = shlex.quote(str(tmp_path / "venv" / "bin" / "pip"))
    clean = tmp_path / "image"
    clean.mkdir()
    for copied in re.findall(r"^(COPY|RUN) (.*)$", DOCKERFILE, re.MULTILINE):
        kind, line = copied
        if kind == "COPY":
            *sources, target = line.split()
            into = clean / target if len(sources) == 1 and target != "./" else clean
            for source in sources:
                subprocess.run(["cp", "-r", str(ROOT / source), str(into)], check=True)
        elif line.startswith("pip "):
            command = line.replace("pip ", f"{pip} ", 1)
            subprocess.run(["sh", "-ec", command], cwd=clean, check=True)
    for script in PROJECT["project"]["scripts"]:
        command = [str(tmp_path / "venv" / "bin" / script), "--help"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    swept = [str(tmp_path / "venv" / "bin" / "cse-sweep"), "image/sweeps/quickstart.yaml"]
    planned = subprocess.run(
        [*swept, "--dry-run"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "quickstart-rankcse" in planned.stdout
