import re
import sys
from collections.abc import Callable
from inspect import unwrap
from pathlib import Path

import pytest
from outside_methods import keep_registry, lay_metadata
from processes import python

from cse_methods import registry
from cse_methods.config import MethodConfig
from cse_methods.contract import Paper, Run
from cse_methods.errors import BrokenMethodError, UnknownMethodError
from cse_methods.registry import available_methods, get_method, register, unused_claims

PAPER = Paper("A paper", "https://example.org", 2026)
SOURCE = """
from cse_methods import MethodConfig, Paper, register

class Config(MethodConfig):
    @classmethod
    def dependent_defaults(cls, values):
        return {{"max_length": 1 / 0}}

@register("{name}", config=Config, paper=Paper("P", "https://example.org", 2026), revision=3)
def train(config, run):
    return {{}}
"""
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_registry(monkeypatch)


def test_the_folder_of_papers_is_the_catalogue_and_a_file_names_its_method() -> None:
    papers = Path(registry.papers.__path__[0]).glob("*.py")
    assert available_methods() == sorted(p.stem for p in papers if p.stem != "__init__")
    assert {"simcse", "rankcse"} <= set(available_methods())
    for name in available_methods():
        method = get_method(name)
        assert method.name == name
        assert method.train.__module__.rpartition(".")[2] == name
        assert method.revision >= 1
        assert get_method(name) is method


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Leaves a package as pip does: a module, and metadata that names its entry point."""

    def lay(module: str, method: str, source: str = SOURCE) -> None:
        (tmp_path / f"{module}.py").write_text(source.format(name=method))
        lay_metadata(tmp_path, module, {method: module})
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return lay


def test_listing_imports_neither_torch_nor_a_paper() -> None:
    script = (
        "import sys; from cse_methods.registry import available_methods as names; names();"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'transformers', 'numpy')"
        " or m.startswith('cse_methods.papers.')])"
    )
    done = python(script)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_unknown_method_is_refused_with_the_nearest_one() -> None:
    known = ", ".join(available_methods())
    for misspelt, nearest in (("simces", "simcse"), ("rank_cse", "rankcse"), ("x", None)):
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        with pytest.raises(UnknownMethodError) as caught:
            get_method(misspelt)
        way = "or one of your own, once its package is installed"
        assert str(caught.value) == f"no method {misspelt!r}.{hint} Known: {known}; {way}"


def test_a_second_claim_on_a_name_is_refused() -> None:
    @register("taken", config=MethodConfig, paper=PAPER, revision=1)
    def first(config: MethodConfig, run: Run) -> dict[str, float]:
        return {}

    def second(config: MethodConfig, run: Run) -> dict[str, float]:
        return {}

    claim = register("taken", config=MethodConfig, paper=PAPER, revision=1)
    with pytest.raises(ValueError, match=r"'taken' is registered already, by .*first"):
        claim(second)
    assert claim(first) is first
    assert unwrap(get_method("taken").train) is first


def test_a_third_party_cannot_take_over_a_name(install: Install) -> None:
    install("lab_simcse", "simcse")
    assert available_methods().count("simcse") == 1
    assert get_method("simcse").train.__module__ == "cse_methods.papers.simcse"
    [claim] = unused_claims()
    assert re.match("method 'simcse' .* 'lab_simcse' of lab_simcse 1.0; ", claim)
    assert unused_claims(["simcse", "rankcse"]) == [claim]
    assert unused_claims(["rankcse"]) == []
    for module in ("one_lab", "other_lab"):
        install(module, "labcse")
    with pytest.raises(BrokenMethodError, match=r"'labcse' is claimed by .*uninstall") as caught:
        get_method("labcse")
    assert "one_lab 1.0" in str(caught.value)
    assert "other_lab 1.0" in str(caught.value)


BROKEN = {
    "registers another": (SOURCE.format(name="another"), None, "does not register it"),
    "lacks a module": ("\nimport no_such_module", 2, "No module named 'no_such_module'"),
    "does not parse": ("a = 1\nb = (", 2, "SyntaxError: '(' was never closed"),
    "exits": ("import sys\n\nsys.exit(3)", 3, "SystemExit: 3"),
    "raises over lines": ("raise RuntimeError('one\\n  two')", 1, "RuntimeError: one two"),
    "fails deeper": ("def read():\n    open('no-such-file')\nread()", 2, "FileNotFoundError"),
    "takes a built-in name": (SOURCE.format(name="esimcse"), 9, "'esimcse' is a built-in one"),
    "registers no paper": (
        "from cse_methods import MethodConfig, register\n"
        "@register('x', config=MethodConfig, paper='P', revision=1)\ndef train(c, r): ...",
        2,
        "TypeError: paper must be a Paper, got 'P'",
    ),
    "raises after it registered": (SOURCE.format(name="brokencse") + "1 / 0", 12, "ZeroDivision"),
}


@pytest.mark.parametrize(("source", "line", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_entry_point_is_named_with_file_and_line(
    source: str, line: int | None, reason: str, tmp_path: Path, install: Install
) -> None:
    install("broken_paper", "brokencse", source.replace("{", "{{").replace("}", "}}"))
    for _ in range(2):  # asked again, it is as broken as before
        with pytest.raises(BrokenMethodError) as caught:
            get_method("brokencse")
    message = str(caught.value)
    assert message.startswith("method 'brokencse': its entry point 'broken_paper' of broken_paper")
    assert reason in message
    assert "\n" not in message
    assert line is None or f"{tmp_path / 'broken_paper.py'}, line {line}: " in message
    assert get_method("esimcse").train.__module__ == "cse_methods.papers.esimcse"
