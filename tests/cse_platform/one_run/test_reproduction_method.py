import gzip
import hashlib
import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from one_trial import KEY, began, life, one_run
from outside_methods import keep_registry, lay_metadata

from cse_methods import registry
from cse_methods.code_hash import code_hashes
from cse_methods.registry import get_method
from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.errors import NotFoundError
from cse_platform.export.journal_files import find_output, journal_folders
from cse_platform.leaderboard.trial_details import SweepEntry, TrialDetails
from cse_platform.sweep.identity import code_hash
from cse_platform.sweep.stores import sweep_folder
from cse_platform.tracking.events import Event
from cse_platform.tracking.method_code import (
    MAX_SOURCE_BYTES,
    METHOD_SOURCE,
    collect_method_code,
    keep_method_code,
    read_method_code,
)

FOLDER = Path("reproduce-0a1b2c3d")
REGISTER = """
from pathlib import Path
from cse_methods import Paper, TrainingConfig, register
class Config(TrainingConfig):
    temperature: float = 0.05
from lab.parts.loss import WEIGHT
TABLE = Path(__file__).with_name("published.csv").read_text()

@register("labcse", config=Config, paper=Paper("P", "a.org", 2026), revision=1)
def train(config, run):
    return {}
"""
FILES = {
    "lab/__init__.py": "",
    "lab/method.py": REGISTER,
    "lab/published.csv": "setting,value\n",
    "lab/parts/__init__.py": "",
    "lab/parts/loss.py": "WEIGHT = 1.0\n",
    "lab/other_paper.py": "raise ValueError\n",
    "lab/notes.txt": "not for others\n",
}


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Iterator[Path]:
    """The source folder of an installed package whose method reads a table and a module."""
    root = tmp_path / "their code"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    lay_metadata(root, "Lab_Methods", {"labcse": "lab.method"})
    keep_registry(monkeypatch)
    monkeypatch.syspath_prepend(root)
    yield root
    for module in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[module]


@pytest.fixture
def ran(fill) -> Callable[..., None]:
    """Puts a trial of the method on the leaderboard, run with that code."""

    def put(code: str | None, **start: Any) -> None:
        packages = {"cse-platform": "0.1.0", "lab-methods": "1.0", "numpy": "2.1.0"}
        started, *rest = life()
        changed = started.model_copy(update={"method": "labcse", "code": code})
        spec = began().spec | {"method": "labcse", "space": {}}
        facts = {"method": "labcse", "spec": spec, "packages": packages, "provenance": {}} | start
        fill(began(**facts), changed, *rest)

    return put


@pytest.fixture
def keep(lab, runs) -> Callable[[], str]:
    """Keeps the source of the method as it is now beside the journal, as a start does."""

    def keep() -> str:
        code = collect_method_code(get_method("labcse"))
        return keep_method_code(code, sweep_folder(runs, "first"))

    return keep


def test_its_source_lies_in_the_folder(lab, keep, ran, monkeypatch) -> None:
    method = get_method("labcse")
    before = code_hashes(method)
    ran(code_hash(method), provenance={METHOD_SOURCE: keep()})
    done = one_run("reproduce", KEY)
    assert "labcse" not in done.stderr
    source = FOLDER / "method" / "src"
    carried = {
        path.relative_to(source).as_posix(): path.read_text()
        for path in source.rglob("*")
        if path.is_file()
    }
    assert carried.keys() == FILES.keys() - {"lab/other_paper.py", "lab/notes.txt"}
    assert carried.items() <= FILES.items()
    assert all(f"method/src/{name}" in done.stdout for name in carried)
    assert (FOLDER / "requirements.txt").read_text() == "cse-platform==0.1.0\nnumpy==2.1.0\n"
    project = tomllib.loads((FOLDER / "method" / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == ("lab-methods", "1.0")
    readme = (FOLDER / "README.md").read_text()
    assert "venv/bin/pip install -r requirements.txt ./method\n" in readme
    # Installed from there, it is the same method: a trial has the same key.
    lay_metadata(source, "lab-methods", project["entry-points"]["cse.methods"])
    monkeypatch.setattr(registry, "_METHODS", {})
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [str(source), *(p for p in sys.path if p != str(lab))])
    again = get_method("labcse")
    assert Path(sys.modules["lab.method"].__file__ or "").is_relative_to(source.absolute())
    assert code_hashes(again) == before


def test_a_kept_source_comes_back_once_nobody_has_it(lab, keep, ran, runs) -> None:
    sha256 = keep()
    ran(code_hash(get_method("labcse")), provenance={METHOD_SOURCE: sha256})
    table = lab / "lab" / "published.csv"
    table.write_text("another,table\n")  # which no key hashes
    one_run("reproduce", KEY, "--to", "table")
    copy = Path("table", "method", "src", "lab", "published.csv")
    assert copy.read_text() == FILES["lab/published.csv"]
    (lab / "lab" / "parts" / "loss.py").write_text("WEIGHT = 2.0\n")
    done = one_run("reproduce", KEY)
    assert "labcse" not in done.stderr, done.output
    source = FOLDER / "method" / "src" / "lab"
    assert (source / "parts" / "loss.py").read_text() == FILES["lab/parts/loss.py"]
    assert (source / "published.csv").read_text() == FILES["lab/published.csv"]
    project = tomllib.loads((FOLDER / "method" / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["cse.methods"] == {"labcse": "lab.method"}
    shown = one_run("show", KEY, "--code").stdout
    assert "cse-platform==0.1.0\n" in shown and "==> method/pyproject.toml <==\n" in shown
    assert "==> method/src/lab/parts/loss.py <==\nWEIGHT = 1.0\n" in shown
    [file] = (sweep_folder(runs, "first") / "code").iterdir()
    file.write_text(file.read_text().replace("1.0", "3.0"))
    refused = one_run("show", KEY, "--code", code=1)
    assert "is damaged" in refused.stderr
    file.unlink()
    assert " `code` from there to runs/sweeps/first" in one_run("show", KEY, "--code").stdout


def test_the_same_source_is_kept_once_and_another_beside_it(lab, keep, runs) -> None:
    first = keep()
    assert keep() == first
    (lab / "lab" / "published.csv").write_text("a,table,that,no,key,hashes\n")
    assert keep() != first
    assert len(list((sweep_folder(runs, "first") / "code").iterdir())) == 2


def test_a_folder_that_nobody_here_can_look_into_is_passed_over(lab, keep, runs) -> None:
    """As another user's: journals are recorded by the folder of whoever ran their driver."""
    sha256, other = keep(), "x" * 300  # no file system has such a name, so that looking fails
    found = read_method_code([Path(other), sweep_folder(runs, "first")], sha256)
    assert found is not None and found.files["lab/parts/loss.py"] == "WEIGHT = 1.0\n"
    details = object.__new__(TrialDetails)
    places = (SweepEntry("first", 3, "search", "host", other),)
    details.__dict__.update(key=KEY, starts=(), sweeps=places)
    assert find_output(details, runs) is None
    with pytest.raises(NotFoundError, match="the output of trial 0a1b2c3d is not here"):
        find_output(details, None)


def test_no_output_is_read_through_a_link(ran, runs, tmp_path) -> None:
    """As in a runs folder from elsewhere, whose link names a log of ours."""
    ran("0" * 64)
    below = f"first/output/trial-{life()[0].number}.txt.gz"
    (secret := tmp_path / "sweeps" / below).parent.mkdir(parents=True)
    secret.write_bytes(gzip.compress(b"hunter2\n"))
    for part in (below, "first/output", "first", ""):
        link = runs / "sweeps" / part
        shutil.rmtree(runs / "sweeps", ignore_errors=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / "sweeps" / part)
        said = invoke(cse_sweep, "logs", KEY, "--runs", runs, code=1)
        assert "is a link or behind one" in said.stderr and "hunter2" not in said.output, part
        if part == "":
            link.unlink()
    shutil.copytree(tmp_path / "sweeps", runs / "sweeps")
    assert invoke(cse_sweep, "logs", KEY, "--runs", runs).stdout == "hunter2\n"


def test_a_diff_has_what_changed_between_trials(lab, keep, fill) -> None:
    other, events = "ffff" + KEY[4:], []
    for number, key, weight in ((1, KEY, "1.0"), (20, other, "2.0")):
        (lab / "lab" / "parts" / "loss.py").write_text(f"WEIGHT = {weight}\n")
        facts = {METHOD_SOURCE: keep(), "package_commit": f"c0ffee{weight}"}
        events += [began(number - 1, provenance=facts), *life(key, seed=number, begin=number)]
    fill(*events)
    done = one_run("show", other, "--diff", KEY)
    changed = [line for line in done.stdout.splitlines() if re.match("[+-](?![+-])", line)]
    assert changed == [
        "-# cse-platform was at commit c0ffee1.0.",
        "+# cse-platform was at commit c0ffee2.0.",
        "-WEIGHT = 1.0",
        "+WEIGHT = 2.0",
    ]
    one_run("show", KEY, "--diff", KEY, "--code", code=2)


def test_a_diff_claims_no_more_than_the_hashes_of_the_code_tell(fill) -> None:
    other = "ffff" + KEY[4:]
    for hashes, said in {
        ("0a", "0a"): "ffff2c3d and 0a1b2c3d ran the same code\n",
        (None, None): "the records of the code of ffff2c3d and 0a1b2c3d do not differ\n",
        ("0a", "0b"): "+# The code of its method has the hash 0b.\n",
    }.items():
        events: list[Event] = [began()]
        for seed, (key, code) in enumerate(zip((KEY, other), hashes, strict=True)):
            started, *rest = life(key, seed=seed, begin=1 + 20 * seed)
            change = {"code": code, "configuration": (code or "cc") * 32}
            events += [started.model_copy(update=change), *rest]
        fill(*events)
        shown = one_run("show", other, "--diff", KEY).stdout
        assert shown.endswith(said) and ("the same code" in shown) == (hashes == ("0a", "0a"))


def test_secrets_are_not_kept_and_large_files_are_named(lab, keep, ran, runs) -> None:
    with (lab / "lab" / "parts" / "loss.py").open("a") as file:
        file.write("api_key = 'hunter2'\n")
    (lab / "lab" / "published.csv").write_bytes(b"1" * (MAX_SOURCE_BYTES + 1))
    sha256 = keep()
    [file] = (sweep_folder(runs, "first") / "code").iterdir()
    kept = json.loads(file.read_text())
    assert "hunter2" not in file.read_text()
    assert kept["masked"] == ["lab/parts/loss.py"]
    assert kept["left_out"] == {"lab/published.csv": "it has 1048577 bytes"}
    ran("0" * 64, provenance={METHOD_SOURCE: sha256})
    said = one_run("reproduce", KEY).stderr
    assert "Secrets in method/src/lab/parts/loss.py are hidden" in said
    assert "method/src/lab/published.csv is not kept, because it has 1048577" in said


def test_a_method_whose_source_was_not_kept_is_named_by_its_commit(ran) -> None:
    facts = {"method_commit": "c0ffee", "method_dirty": "true", "method_remote": "ssh://lab/m"}
    ran("0" * 64, provenance=facts, diffs={"method": "+WEIGHT = 2.0\n"})
    said = one_run("reproduce", KEY).stderr
    assert "The source of the method 'labcse' was not kept." in said
    assert "at commit c0ffee of ssh://lab/m, with changes (method.diff)." in said
    assert (FOLDER / "method.diff").read_text() == "+WEIGHT = 2.0\n"
    assert not (FOLDER / "method").exists() and "sweep.yaml is not valid here: " in said
    ran("0" * 64, provenance={"method_commit": "c0ffee", "method_dirty": "true"})
    shown = one_run("show", KEY, "--code").stdout
    assert "# The method 'labcse' was at commit c0ffee, with changes (that nobody rec" in shown


def test_a_forged_source_writes_nothing_and_names_its_file(ran, runs, tmp_path) -> None:
    """As in a runs folder from somebody else, whose journal names the source by its hash."""
    sound = {
        "package": "lab-methods",
        "version": "1.0",
        "methods": {"labcse": "lab.method"},
        "files": {"lab/method.py": ""},
    }
    names = ("../../stolen", "/tmp/stolen", "lab/../../x", "..", "", "lab//x", "lab/", "a\\..\\x")
    names = (*names, "a\0b", "a\nb", "lab/\u202etxt.py", "x" * 300, "lab/ x", ".\u2028")
    forged: list[Any] = [sound | {"files": {name: "x"}} for name in names]
    forged += [sound | {"version": text} for text in ("", '1"\n[tool]', "1.0\n-r x", "../1", 1)]
    forged += [sound | {"package": text} for text in ("a b", "../x", "a\n", 'a"', "", "-a")]
    forged += [sound | {"methods": {"labcse": text}} for text in ("a:b\nc", "os.", "a b", "", 'a"')]
    forged += [sound | {"methods": {text: "lab.method"}} for text in ("a\nb", '"', "../a", "")]
    forged += [sound | {"files": {"a": 1}}, sound | {"more": 1, "files": []}, [], "x", None, {}]
    folder = sweep_folder(runs, "first") / "code"
    folder.mkdir(parents=True)
    for content in forged:
        text = json.dumps(content).encode()
        sha256 = hashlib.sha256(text).hexdigest()
        (folder / f"{sha256}.json").write_bytes(text)
        ran("0" * 64, provenance={METHOD_SOURCE: sha256})
        before = set(tmp_path.rglob("*"))
        for command in ("reproduce", "show"):
            done = one_run(command, KEY, *["--code"] * (command == "show"), code=1)
            assert f"{sha256}.json is not the source of a method" in done.stderr, content
            assert done.stderr.count("\n") == 1, content
        assert set(tmp_path.rglob("*")) == before, content


def test_no_source_is_read_through_a_link_or_by_another_name(ran, runs, tmp_path) -> None:
    private, folder = tmp_path / "private.json", sweep_folder(runs, "first") / "code"
    text = b'{"package": "a", "version": "1", "methods": {}, "files": {"key": "hunter2"}}'
    sha256 = hashlib.sha256(text).hexdigest()
    for target in (private, tmp_path / f"elsewhere/{sha256}.json"):
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(text)
    folder.mkdir(parents=True)
    (folder / f"{sha256}.json").symlink_to(private)
    links = [folder / f"{sha256}.json", folder, folder.parent, folder.parent.parent]
    ran("0" * 64, provenance={METHOD_SOURCE: sha256})
    (tmp_path / "elsewhere" / folder.parent.name).mkdir()
    for inner in (tmp_path / "elsewhere" / "code", tmp_path / "elsewhere" / "first" / "code"):
        shutil.copytree(tmp_path / "elsewhere", inner, ignore=lambda *_: ["first", "code"])
    for link, above in zip(links, [*links[1:], None], strict=True):
        done = one_run("reproduce", KEY, code=1)
        named = link if link == links[0] else folder
        assert f"{named.relative_to(tmp_path)} is a link" in done.stderr and not FOLDER.exists()
        link.unlink()
        if above is not None:
            above.rmdir()
            above.symlink_to(tmp_path / "elsewhere")
    folder.mkdir(parents=True)
    os.mkfifo(folder / f"{sha256}.json")  # whose reader would wait forever
    assert "is a link" in one_run("show", KEY, "--code", code=1).stderr
    for name in (f"../../../../{private.stem}", "a\0b", ""):
        ran("0" * 64, provenance={METHOD_SOURCE: name})
        assert "is not here" in one_run("show", KEY, "--code").stdout
    (folder / f"{sha256}.json").unlink()
    text = text.replace(b"hunter2", rb"\u0000\u202e")
    sha256 = hashlib.sha256(text).hexdigest()
    (folder / f"{sha256}.json").write_bytes(text)
    ran("0" * 64, provenance={METHOD_SOURCE: sha256})
    assert "\n\\x00\\u202e\n" in one_run("show", KEY, "--code").stdout
    details = object.__new__(TrialDetails)
    details.__dict__.update(sweeps=(SweepEntry("first", 3, "search", "host", "a\0"),))
    assert read_method_code(journal_folders(details, None), sha256) is None
