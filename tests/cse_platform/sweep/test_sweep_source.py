import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cse_platform.errors import SweepFileError
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.spec import SweepSpec, best_references
from cse_platform.sweep.yaml_file import UnreadableYamlError, read_yaml

TOY = """\
sweep: a
method: toy
backbone: mini
corpus: builtin
fixed: {temperature: 0.1, teachers: [one, two]}
search: {trials: 1}
"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-5", 3e-5),
        ("no", "no"),
        ("true", True),
        ("~", None),
        ("0o17", 15),
        ("2024-05-01", "2024-05-01"),
        ("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}),
        ("{a: &x {p: 1, q: 2}, b: {<<: *x, q: 3}}", {"a": {"p": 1, "q": 2}, "b": {"q": 3, "p": 1}}),
        ("- &x {p: 1}\n- {<<: [*x], q: 2}", [{"p": 1}, {"p": 1, "q": 2}]),
    ],
)
def test_values_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    source = read_yaml(text)
    assert (source.data, source.problems) == (value, [])
    assert type(source.data) is type(value)


def test_lines_are_those_of_keys_and_items() -> None:
    source = read_yaml("# head\na:\n  b:\n  - 1\n  - 2\nc: &x {d: 1}\ne: *x\n")
    assert source.origins == {
        (): 2, ("a",): 2, ("a", "b"): 3, ("a", "b", 0): 4, ("a", "b", 1): 5,
        ("c",): 6, ("c", "d"): 6, ("e",): 7, ("e", "d"): 6,
    }  # fmt: skip
    assert source.find_origin(("a", "b", 9, "z")) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\n\tb: 2", "line 2: .*; indent with spaces, not tabs"),
        ("a: [1,\nb: 2", "line 2: .*"),
        ("a: *b", "line 1: found undefined alias"),
        ("a: 1\n---\nb: 2", "a second document begins on line 2; put several sweeps under stages:"),
        ("a:\N{NO-BREAK SPACE}1\nb: 2", "line 1: a no-break space after 'a:'; write an ordinary"),
        (
            "a: 'x\N{NO-BREAK SPACE}y'\n# \N{NO-BREAK SPACE}\nb: 2: 3",
            "line 3: mapping values",
        ),
        ("a: \x00", "not YAML: .*"),
        ("&a [*a]", "line 1: values are nested deeper than 40"),
        ("[" * 1500, "line 1: values are nested deeper than 40"),
        ("&a {<<: *a}", "line 1: values are nested deeper than 40|line 1: more than 10000 values"),
        ("a:\n  b:\n    " + "[" * 42, "line 3: values are nested deeper than 40"),
        pytest.param(
            "k:\n- 1\n- [" + "1," * 50_000 + "]", "line 3: a file has 100000 char", id="long"
        ),
        pytest.param("k:\n" + "- 1\n" * 10_001, "line 10000: more than 10000 values", id="many"),
        ("{<<: 3}", "line 1: '<<' merges mappings only"),
    ],
)
def test_what_is_not_yaml_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnreadableYamlError, match=reason):
        read_yaml(text)


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(UnreadableYamlError, match="more than 10000 values with aliases"):
        read_yaml("\n".join(lines))


def test_what_json_has_not_is_a_problem_of_the_value() -> None:
    for text, problem in (
        ("1e999", "expected a finite number, got 1e999"),
        ("9223372036854775808", "the number '9223372036854775808' is too large"),
        (f"{'9' * 5000}", "cannot read '99"),
        ("!!int x", "cannot read 'x'"),
        ('"\\uD800"', "expected text, got half a character"),
        ("!thing x", "no such kind of value: !thing"),
        ("!!binary aGk=", "no such kind of value: !!binary; remove the tag, and write the value"),
        ("!thing {a: 1}", "no such kind of value: !thing"),
        ("!thing [1]", "no such kind of value: !thing"),
        ("!!python/object:os.x {a: 1}", "no such kind of value: !!python/object:os.x"),
        ("!!set {a}", "no such kind of value: !!set"),
        ("[1, [!!omap [a: 1]]]", "no such kind of value: !!omap"),
        ("{<<: !thing {a: 1}, b: 1}", "no such kind of value: !thing"),
        ("{{ a }}", "a key must be text, got a list or a mapping; a text that begins with { or ["),
        ("{true: 1}", "a key must be text, got 'true'"),
        ("{a: 1, a: 2}", "a second 'a'; the first is on line 1"),
    ):
        (found,) = read_yaml(f"v: {text}").problems
        assert found.text.startswith(problem) and found.origin == 1, text
    assert read_yaml("!!map {a: !!seq [!!str 5, !!int 6]}").data == {"a": ["5", 6]}


def refusal(path: Path, overrides: Sequence[str] = ()) -> str:
    with pytest.raises(SweepFileError, match=path.name) as caught:
        load_sweep(path, overrides=overrides)
    return str(caught.value).replace(str(path), "FILE")


def test_a_file_that_is_no_mapping_or_cannot_be_read(tmp_path: Path) -> None:
    for content, message in (
        (b"", "FILE is not a sweep:\n  line 1: expected a mapping that begins with 'sweep: NAME'; "
         "the file is empty"),
        (b"- a\n", "FILE is not a sweep:\n  line 1: expected a mapping that begins with "
         "'sweep: NAME', got [\"a\"]"),
        ("sweep: x".encode("utf-16"), "FILE is UTF-16 or UTF-32; convert it to UTF-8, e.g. by "
         "`iconv -f UTF-16 -t UTF-8 FILE > NEW`"),
        ("sweep: x".encode("utf-16-le"), "FILE, line 1: a NUL, which no text has; remove it, or "
         "convert the file if it is UTF-16, e.g. by `iconv -f UTF-16LE -t UTF-8 FILE > NEW` (or "
         "UTF-16BE)"),
        (b"sweep: x\nmethod: caf\xe9", "FILE, line 2: byte 0xe9 is not UTF-8; convert the file to "
         "UTF-8, e.g. from Windows' encoding by `iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW`"),
        (b"a: {b: 1\nc: 2", "FILE is not a sweep:\n  line 2: expected ',' or '}', but got "
         "':'; close the bracket of line 1"),
        (b"a: b: 2", "FILE is not a sweep:\n  line 1: mapping values are not allowed here; is it "
         "indented as the lines that it belongs to? a text with ': ' in it needs quotes"),
        (b"a:\n  b: 1\n d: 2\n", "FILE is not a sweep:\n  line 3: expected <block end>, but found "
         "'<block mapping start>'; is it indented as the lines that it belongs to?"),
        (b"# x\nsweep:x\nmethod:y\na: z\n", "FILE is not a sweep:\n  line 2: no space "
         "after 'sweep:'"),
        (b"space:\n  lr:[1]  # two\n  b: 1\n", "FILE is not a sweep:\n  line 2: no space "
         "after 'lr:'"),
        (b"a: [", "FILE is not a sweep:\n  line 1: expected the node content, but found "
         "'<stream end>'"),
    ):  # fmt: skip
        path = tmp_path / "a.yaml"
        path.write_bytes(content)
        assert refusal(path) == message
    assert refusal(tmp_path / "none.yaml") == "FILE: no such file"
    assert refusal(tmp_path) == "FILE is a folder; name a file in it"
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert refusal(loop) == "FILE cannot be read: Too many levels of symbolic links"


def test_overrides_replace_and_add_and_say_which_stage(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(TOY)
    overrides = ["sweep=b", "method=toy", "search.trials=3", "fixed.teachers.1=three", "data="]
    overrides += ["seeds.confirm={top: 1, seeds: [0]}", "space.views=[2, 3]", "fixed.epochs=2"]
    (spec,) = load_sweep(path, overrides=overrides).stages
    assert (spec.sweep, spec.method, spec.search.trials, spec.data) == ("b", "toy", 3, None)
    assert spec.seeds.confirm and spec.seeds.confirm.seeds == (0,)
    assert spec.fixed == {"temperature": 0.1, "teachers": ["one", "three"], "epochs": 2}
    assert spec.space["views"].choices == (2, 3)  # type: ignore[union-attr]
    path.write_text("stages:\n- " + TOY.replace("\n", "\n  "))
    (spec,) = load_sweep(path, overrides=["stages.0.search.trials=5"]).stages
    assert spec.search.trials == 5
    assert refusal(path, ["search.trials=5"]).endswith(
        "  --set search.trials=5: the file has stages; write --set stages.N.search.trials=…, with "
        "N from 0"
    )
    assert refusal(path, ["stages.0.epochs=2"]).endswith("; write --set stages.0.fixed.epochs=2")
    with pytest.raises(SweepFileError, match=r"\n  --trials 5: the file has .* --set stages\.N\.s"):
        read_draft(path, trials=5).finish()


SWEEP = "method: toy, backbone: mini, corpus: builtin, fixed: {temperature: 1}, search: {trials: 1}"
TWO = f"stages:\n  - {{sweep: first, {SWEEP}}}\n  - {{sweep: second, {SWEEP}}}\n"


def test_a_stage_can_stand_for_those_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "one.yaml").write_text(f"{{sweep: third, {SWEEP}}}\n")
    whole = tmp_path / "whole.yaml"
    whole.write_text("stages:\n  - {file: two.yaml, seeds: {search: 7}}\n  - file: one.yaml\n")
    stages = load_sweep(whole, overrides=["stages.1.search.trials=3"]).stages
    found = [(one.sweep, one.seeds.search, one.search.trials) for one in stages]
    assert found == [("first", 7, 1), ("second", 7, 3), ("third", 42, 1)]
    for wrong in ("-1", ".nan"):
        whole.write_text(f"stages:\n  - file: two.yaml\n    seeds: {{search: {wrong}}}\n")
        with pytest.raises(SweepFileError, match=r"line 3, stages\.1\.seeds\.search: "):
            load_sweep(whole)


def test_a_missing_file_has_the_one_that_is_meant(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "lab.yaml").write_text("stages:\n  - sweep: my-first  # of two\n")
    (tmp_path / "notes.yml").write_text("sweep: other\n")
    for name, hint in {
        "my-first": "; did you mean sweeps/lab.yaml?",
        "lab": "; did you mean sweeps/lab.yaml?",
        "note.yaml": "; did you mean notes.yml?",
        "quickstrat": "; did you mean quickstart?",
        "sweps/quickstart.yaml": "; did you mean quickstart?",
        "zzz": "; name the file of the sweep, such as sweeps/zzz.yaml",
        "zzz.yaml": "",
    }.items():
        with pytest.raises(SweepFileError) as caught:
            load_sweep(Path(name))
        assert str(caught.value) == f"{name}: no such file{hint}"


def test_problems_of_an_included_file_are_placed_in_it(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO.replace("second, method", "second, metod"))
    whole = tmp_path / "whole.yaml"
    names = ("two.yaml", "none.yaml", "whole.yaml", "../up.yaml", "'-'")
    whole.write_text("stages:\n" + "".join(f"  - file: {name}\n" for name in names))
    with pytest.raises(SweepFileError) as caught:
        load_sweep(whole)
    told = str(caught.value)
    assert "two.yaml, line 3, stages.1.metod: " in told
    assert f"line 3: {tmp_path / 'none.yaml'}: no such file" in told
    assert "line 4: whole.yaml includes itself" in told
    assert re.search(r"line 5: .* got '\.\./up\.yaml'", told)
    assert re.search(r"line 6: expected the name .* got '-'", told)  # never standard input


FULL = """\
sweep: full
method: toy
backbone: mini
corpus: [builtin, {name: wiki, drop_empty: true}]
data: builtin
dev: {checkpoint: stsb, search: sickr, also: [stsb]}
fixed: &fixed
  epochs: 2
  teachers: [one, {model: two, pooler: avg}, {best: {method: toy, backbone: mini}}]
space:
  temperature: {low: 1e-2, high: 0.1, log: true}
  rank_loss: [listnet, listmle]
  tau3: {choices: [0.1, 0.2], when: {rank_loss: listnet}}
  views: {low: 2, high: 4, step: 1}
search: {sampler: tpe, trials: 4, seed: 1, start_from: [{temperature: 0.05}, {views: 3}]}
pruner: {kind: successive_halving, min_step: 5, reduction_factor: 3}
seeds: {search: 42, confirm: {top: 2, seeds: [0, 1]}}
resources: {gpu: 0.5, cpu: 2}
evaluate: {top: 1, tasks: [sts]}
stores: {leaderboard: "sqlite:///a.db", search: "sqlite:///b.db"}
storage: /tmp/x
"""
PIECES = [
    "", "~", "0", "-1", "1.5", "1e999", ".nan", "true", "no", "[]", "{}", "[1, 1]", "{a: b}",
    "*fixed", "&fixed", "<<: *fixed", "!!int x", '"\\uD800"', "- ", "  ", "\t", ": ", "?", "|",
    ">", "%", "{", "]", "listmle", "published", "low", "choices", "when", "stages", "best",
    "rank_loss", "\n", "---\n", "é", "9" * 20, "2024-01-01", "{best: 3}", "{low: 1, high: 2}",
    "[{}, []]", "'", '"',
]  # fmt: skip


def mutated(lines: list[str], chance: random.Random) -> list[str]:
    """One change: a line gone, doubled, moved or shifted, or a word of it replaced."""
    at = chance.randrange(len(lines))
    words = lines[at].split(" ")
    words[chance.randrange(len(words))] = chance.choice(PIECES)
    changed: list[list[str]] = [[], [lines[at]] * 2, [" " + lines[at]], [" ".join(words)]]
    piece = chance.choice(PIECES)
    key, colon, _ = lines[at].partition(": ")
    changed += [[f"{key}{colon}{piece}"], [f"{piece}: {lines[at].strip()}"]]
    return lines[:at] + chance.choice(changed) + lines[at + 1 :] or [""]


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(chance=st.randoms(use_true_random=False), changes=st.integers(0, 3))
def test_a_good_file_with_changes(tmp_path: Path, chance: random.Random, changes: int) -> None:
    """It loads, or is refused in our words."""
    lines = FULL.splitlines()
    for _ in range(changes):
        lines = mutated(lines, chance)
    path = tmp_path / "fuzzed.yaml"
    path.write_text("\n".join(lines))
    try:
        stages = load_sweep(path).stages
    except SweepFileError as error:
        assert str(error).startswith(str(path)) and "Value error" not in str(error)
        return
    for spec in stages:
        assert SweepSpec.model_validate(spec.model_dump(mode="json")) == spec
        best_references(spec)
