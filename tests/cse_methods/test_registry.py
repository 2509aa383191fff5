"""Methods by name: found without being imported, suggested when misspelt, claimed only once."""

import subprocess
import sys
from pathlib import Path

import pytest

from cse_methods import registry
from cse_methods.contract import MethodConfig, Paper, Run
from cse_methods.errors import UnknownMethodError
from cse_methods.registry import available_methods, get_method, register

PAPER = Paper("A paper", "https://example.org", 2026)
SOURCE = """
from cse_methods.contract import MethodConfig, Paper
from cse_methods.registry import register

@register("{name}", config=MethodConfig, paper=Paper("P", "https://example.org", 2026), revision=3)
def train(config, run):
    return {{}}
"""


@pytest.fixture(autouse=True)
def registry_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, module: str, source: str, methods: list[str]
) -> None:
    """A package as pip leaves it: a module, and metadata that names its entry points."""
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = "".join(f"{method} = {module}\n" for method in methods)
    (metadata / "entry_points.txt").write_text(f"[cse.methods]\n{lines}")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)


def test_the_folder_of_papers_is_the_catalogue() -> None:
    papers = Path(registry.papers.__path__[0]).glob("*.py")
    assert available_methods() == sorted(p.stem for p in papers if p.stem != "__init__")
    assert {"simcse", "rankcse"} <= set(available_methods())


@pytest.mark.parametrize("name", available_methods())
def test_a_method_bears_the_name_of_its_file(name: str) -> None:
    method = get_method(name)
    assert method.name == name
    assert method.train.__module__.rpartition(".")[2] == name
    assert method.revision >= 1
    assert get_method(name) is method


def test_listing_imports_neither_torch_nor_a_paper() -> None:
    script = (
        "import sys; from cse_methods.registry import available_methods as names; names();"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'transformers', 'numpy')"
        " or m.startswith('cse_methods.papers.')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("misspelt", "hint"),
    [("simces", " Did you mean 'simcse'?"), ("rank_cse", " Did you mean 'rankcse'?"), ("x", "")],
)
def test_an_unknown_method_and_its_nearest(misspelt: str, hint: str) -> None:
    known = ", ".join(available_methods())
    with pytest.raises(UnknownMethodError) as caught:
        get_method(misspelt)
    assert str(caught.value) == f"no method {misspelt!r}.{hint} Known: {known}"


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
    assert get_method("taken").train is first


def test_a_third_party_adds_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.format(name="labcse")
    install(tmp_path, monkeypatch, module="lab_paper", source=source, methods=["labcse"])
    assert "labcse" in available_methods()
    assert "lab_paper" not in sys.modules
    assert get_method("labcse").revision == 3


def test_a_third_party_cannot_take_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.format(name="simcse")
    install(tmp_path, monkeypatch, module="lab_simcse", source=source, methods=["simcse"])
    assert available_methods().count("simcse") == 1
    assert get_method("simcse").train.__module__ == "cse_methods.papers.simcse"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SOURCE.format(name="another"), "does not register it"),
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
    ],
)
def test_a_broken_entry_point_is_named(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, module="broken_paper", source=source, methods=["brokencse"])
    with pytest.raises(UnknownMethodError, match=f"'brokencse'.*'broken_paper' {reason}"):
        get_method("brokencse")
