import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cse_methods
from cse_methods.code_hash import ROOMS, code_hashes
from cse_methods.config import MethodConfig
from cse_methods.contract import Method, Paper
from cse_methods.registry import get_method

PACKAGE = {
    "__init__.py": "",
    "method.py": (
        "from . import helpers\n"
        "from .losses import loss\n"
        "def train(config, run):\n"
        '    """Train."""\n'
        "    from outside_sibling import SCALE  # imported late\n"
        "    return loss(helpers.WEIGHT) * SCALE\n"
    ),
    "helpers.py": "WEIGHT = 0.5\n",
    "losses.py": (
        "from cse_methods import info_nce\ndef loss(weight):\n    return weight * info_nce\n"
    ),
    "unused.py": "ANYTHING = 1\n",
}

Write = Callable[..., dict[str, str]]


def method_of(train: Callable[..., dict[str, float]]) -> Method:
    return Method("outside", MethodConfig, Paper("A title", "https://example.org", 2024), 1, train)


@pytest.fixture
def hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a package with changes, imports it anew, and gives the hashes of its method's code."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        for name in [n for n in sys.modules if n.startswith("outside_")]:
            del sys.modules[name]

    def write(**changes: str) -> dict[str, str]:
        forget()
        sibling = changes.pop("sibling", "SCALE = 2\n")
        (tmp_path / "outside_sibling.py").write_text(sibling)
        folder = tmp_path / "outside_package"
        folder.mkdir(exist_ok=True)
        for name, text in (PACKAGE | {f"{n}.py": text for n, text in changes.items()}).items():
            (folder / name).write_text(text)
        importlib.invalidate_caches()
        return code_hashes(method_of(importlib.import_module("outside_package.method").train))

    yield write
    forget()


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def test_a_method_s_code_is_its_module_and_what_that_imports(hashes: Write) -> None:
    found = hashes()
    inside = {name for name in found if not name.startswith("cse_methods")}
    assert inside == {
        *("outside_package", "outside_package.method", "outside_package.helpers"),
        *("outside_package.losses", "outside_sibling"),
    }
    assert "cse_methods.losses.info_nce" in found
    assert not {name for name in found if name.startswith("cse_methods.papers.")}


def test_a_change_of_code_changes_its_module_s_hash_and_comments_do_not(hashes: Write) -> None:
    before = hashes()
    for change, where in (
        ({"helpers": "WEIGHT = 0.25\n"}, "outside_package.helpers"),
        ({"losses": PACKAGE["losses.py"].replace("*", "+")}, "outside_package.losses"),
        ({"method": PACKAGE["method.py"].replace("* SCALE", "")}, "outside_package.method"),
        ({"sibling": "SCALE = 3\n"}, "outside_sibling"),
    ):
        assert changed(before, hashes(**change)) == {where}
    for change in (
        {"helpers": '"""Weights."""\n\n# half\nWEIGHT = (\n    0.5  # of the whole\n)\n'},
        {"method": PACKAGE["method.py"].replace("Train.", "Train it.")},
        {"unused": "ANYTHING = 2\n"},
    ):
        assert changed(before, hashes(**change)) == set()


def test_a_table_that_a_module_names_counts_as_its_code(hashes: Write, tmp_path: Path) -> None:
    table = tmp_path / "outside_package" / "words.csv"
    reads = {"helpers": 'WEIGHT = 0.5\nTABLE = "words.csv"\n'}
    before = hashes(**reads)
    table.write_text("a\n")
    assert changed(before, found := hashes(**reads)) == {"outside_package.helpers/words.csv"}
    table.write_text("other\n")
    assert changed(found, hashes(**reads)) == {"outside_package.helpers/words.csv"}
    names = code_hashes(get_method("rankcse"))
    assert "cse_methods.encoders.short_names/short_names.csv" in names


def test_a_method_without_a_source_has_no_hash() -> None:
    space = {"__name__": "typed_in"}
    exec("def train(config, run):\n    return {}\n", space)
    assert code_hashes(method_of(space["train"])) == {}  # type: ignore[arg-type]


def test_the_code_of_own_methods_has_the_loop_and_no_unused_paper() -> None:
    for name in ("simcse", "rankcse", "hicl", "untrained"):
        found = code_hashes(get_method(name))
        papers = {module for module in found if module.startswith("cse_methods.papers.")}
        assert f"cse_methods.papers.{name}" in papers
        assert "cse_methods.encoders.encoder" in found
        if name in ("simcse", "rankcse"):
            assert papers == {f"cse_methods.papers.{name}"}
        assert name == "untrained" or "cse_methods.training.loop" in found, name


def test_every_room_is_listed_as_hashed_or_as_known_by_content() -> None:
    """A new room must be put into ROOMS, or here because keys know what it gives by content."""
    by_content = {
        *("config", "contract", "describe", "entry_points", "errors", "new_method", "registry"),
        *("setting_text", "settings", "tasks", "data", "files", "published", "mini", "guard"),
        *("testing", "code_hash", "evaluation", "precision", "allocator", "names", "reports"),
        *("own_pairs", "task_reference"),
    }
    rooms = {module.name for module in pkgutil.iter_modules(cse_methods.__path__)} | {"mini"}
    assert rooms == {room.partition(".")[0] for room in ROOMS} - {"data"} | by_content
