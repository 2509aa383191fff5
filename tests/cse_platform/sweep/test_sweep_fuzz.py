"""Whatever stands in the file: it loads, or the one error says why."""

import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cse_platform.errors import SweepFileError
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.spec import SweepSpec, best_references

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
QUICK = settings(
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def loads_or_is_refused(folder: Path, content: bytes, overrides: list[str]) -> None:
    path = folder / "fuzzed.yaml"
    path.write_bytes(content)
    try:
        stages = load_sweep(path, overrides=overrides).stages
    except SweepFileError as error:
        assert str(error).startswith(str(path))
        assert "Traceback" not in str(error) and "Value error" not in str(error)
        return
    for spec in stages:
        assert SweepSpec.model_validate(spec.model_dump(mode="json")) == spec
        best_references(spec)


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


@settings(QUICK, max_examples=30)
@given(chance=st.randoms(use_true_random=False), changes=st.integers(0, 3))
def test_a_good_file_with_changes(tmp_path: Path, chance: random.Random, changes: int) -> None:
    lines = FULL.splitlines()
    for _ in range(changes):
        lines = mutated(lines, chance)
    loads_or_is_refused(tmp_path, "\n".join(lines).encode(), [])


PATHS = [
    "sweep", "space", "space.tau3", "space.tau3.when", "space.views.low", "fixed.teachers.0",
    "search", "fixed", "stages", "stages.0", "pruner.kind", "corpus", "corpus.1.name", "a.b.c",
    "", ".", "dev",
]  # fmt: skip
PAIRS = st.tuples(st.sampled_from(PATHS), st.sampled_from(PIECES) | st.text(max_size=5))


@settings(QUICK, max_examples=15)
@given(st.lists(PAIRS, max_size=3))
def test_any_overrides(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    loads_or_is_refused(tmp_path, FULL.encode(), [f"{path}={value}" for path, value in pairs])


def test_the_full_file_loads(tmp_path: Path) -> None:
    path = tmp_path / "full.yaml"
    path.write_text(FULL)
    (spec,) = load_sweep(path).stages
    assert spec.evaluate and spec.evaluate.tasks == ("sts",)
