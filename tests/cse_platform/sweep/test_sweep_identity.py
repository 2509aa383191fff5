"""A trial's key follows from all that its numbers follow from, and from nothing else."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cse_methods.contract import Method
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.identity import DevData, Identity, canonical_hash
from cse_platform.sweep.spec import SweepSpec

Sweep = Callable[..., SweepSpec]

SENTENCES = "A dog runs.\nA cat sleeps.\n"


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """The mini encoder in a folder of its own."""
    source = resolve_backbone("mini").model
    assert isinstance(source, Path)
    target = tmp_path / "encoder"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    return target


def sweep(**changes: Any) -> SweepSpec:
    given: dict[str, Any] = {
        "sweep": "a", "method": "rankcse", "backbone": "mini", "corpus": "builtin",
        "data": "builtin", "fixed": {"teachers": ["mini"]},
        "space": {"tau2": [0.025, 0.05], "rank_loss": ["listnet", "listmle"]},
        "search": {"trials": 1},
    }  # fmt: skip
    return SweepSpec.model_validate(given | changes)


def key(
    spec: SweepSpec, assignment: dict[str, Any] | None = None, *, seed: int = 42, revision: int = 1
) -> str:
    method = dataclasses.replace(get_method(spec.method), revision=revision)
    return Identity(spec, method, DevData(spec)).of(spec.config(assignment or {})).key(seed)


def test_canonical_hash_by_hand() -> None:
    text = json.dumps({"a": [0.1, 1.0], "b": None})
    assert canonical_hash({"b": None, "a": [0.1, 1.0]}) == hashlib.sha256(text.encode()).hexdigest()
    assert canonical_hash(0.1 + 0.2) != canonical_hash(0.3)


def test_what_changes_the_numbers_changes_the_key(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(SENTENCES)
    (tmp_path / "two.txt").write_text(SENTENCES + "A bird sings.\n")
    one, two = str(tmp_path / "one.txt"), str(tmp_path / "two.txt")
    keys = [
        key(sweep()),
        key(sweep(), seed=43),
        key(sweep(), {"tau2": 0.05}),
        key(sweep(), {"rank_loss": "listmle"}),
        key(sweep(), revision=2),
        key(sweep(fixed={"teachers": ["mini"], "precision": "bf16"})),
        key(sweep(fixed={"teachers": ["mini"], "eval_steps": 7})),
        key(sweep(fixed={"teachers": [{"model": "mini", "pooler": "cls"}]})),
        key(sweep(corpus=one)),
        key(sweep(corpus=two)),
        key(sweep(dev={"checkpoint": "sickr"})),
        key(sweep(dev={"checkpoint": ["stsb", "sickr"]})),
        key(sweep(dev={"search": "sickr"})),
        key(sweep(dev={"search": ["stsb", "sickr"]})),
        key(sweep(dev={"also": []})),
        key(sweep(method="simcse", fixed={}, space={})),
    ]
    assert len(set(keys)) == len(keys)


def test_rows_of_one_mean_of_dev_sets_are_compared() -> None:
    one = DevData(sweep()).columns
    assert one["checkpoint"] == one["search"] == "stsb"
    assert (one["source"], one["corpus"]) == ("builtin", "builtin")
    assert DevData(sweep(dev={"also": []})).columns["identity"] == one["identity"]
    searched = ["stsb", "sickr", ["stsb", "sickr"], ["sickr", "stsb"], ["sickr"]]
    found = [DevData(sweep(dev={"search": one})).columns for one in searched]
    stsb, sickr, mean, turned, alone = (one["identity"] for one in found)
    assert (mean, alone) == (turned, sickr)
    assert len({stsb, sickr, mean}) == 3
    assert (found[2]["search"], found[2]["source"]) == ("stsb+sickr", "builtin")


def test_rows_of_one_mean_that_picks_are_compared() -> None:
    def columns(*picks: str, climbs: list[str]) -> dict[str, str]:
        return DevData(sweep(dev={"checkpoint": list(picks), "search": climbs})).columns

    both, one = columns("stsb", "sickr", climbs=["stsb"]), columns("stsb", climbs=["stsb"])
    assert (both["checkpoint"], one["checkpoint"]) == ("stsb+sickr", "stsb")
    assert both["identity"] == columns("sickr", "stsb", climbs=["stsb"])["identity"]
    # The same sets one after another, in other roles.
    others = [one, columns("stsb", climbs=["sickr", "stsb"]), columns("sickr", climbs=["stsb"])]
    others.append(columns("stsb", "sickr", climbs=["stsb", "sickr"]))
    assert len({both["identity"], *(other["identity"] for other in others)}) == 5


def test_other_dev_data_change_the_key() -> None:
    spec = sweep()
    method, config = get_method(spec.method), spec.config({})
    ours, corrected = DevData(spec), DevData(spec)
    corrected.sha256 = {
        task: f"{sha256}, one gold score corrected" for task, sha256 in ours.sha256.items()
    }
    one, other = (Identity(spec, method, dev).of(config) for dev in (ours, corrected))
    assert one.hash != other.hash


def test_names_and_orders_do_not_change_the_key(tmp_path: Path, encoder: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(SENTENCES)
    copy = tmp_path / "copy"
    shutil.copytree(encoder, copy)
    one = sweep(
        sweep="a", corpus=str(tmp_path / "one.txt"), backbone=str(encoder),
        fixed={"teachers": [str(encoder)], "beta": 1},
    )  # fmt: skip
    other = sweep(
        sweep="b", corpus=str(tmp_path / "two.txt"), backbone=str(copy),
        fixed={"beta": 1.0, "teachers": [str(copy)]},
    )  # fmt: skip
    assert key(one, {"tau2": 0.05, "rank_loss": "listnet"}) == key(
        other, {"rank_loss": "listnet", "tau2": 0.05}
    )


def test_a_default_is_the_same_written_out_and_an_inactive_dimension_is_left_out() -> None:
    for parent, when, without, others in (
        (["listnet", "listmle"], "listnet", "listmle", "listnet"),
        ({"low": 0.0, "high": 1.0}, "> 0", 0.0, 0.5),
    ):
        name = "rank_loss" if isinstance(parent, list) else "beta"
        tau3 = {"choices": [0.1, 0.2], "when": {name: when}}
        spec = sweep(space={name: parent, "tau3": tau3})
        assert key(spec, {name: without}) == key(spec, {name: without, "tau3": 0.1})
        assert key(spec, {name: others, "tau3": 0.1}) != key(spec, {name: others, "tau3": 0.2})
    assert key(sweep(), {}) == key(sweep(), {"rank_loss": "listnet"})
    assert key(sweep(fixed={"teachers": ["mini"], "batch_size": 64})) == key(sweep())


def test_other_weights_change_the_key(encoder: Path) -> None:
    def now() -> tuple[str, str]:
        taught = sweep(fixed={"teachers": [str(encoder)]})
        return key(sweep(backbone=str(encoder))), key(taught)

    before = now()
    assert now() == before
    config = encoder / "config.json"
    config.write_text(config.read_text() + "\n")
    assert not set(now()) & set(before)


def test_how_a_teacher_is_read_is_part_of_the_key(encoder: Path) -> None:
    """Two folders with one content but for the pooling that the teacher states."""
    spec = sweep(fixed={"teachers": [str(encoder)]})
    before = key(spec)
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.{kind}"}
        for index, path, kind in ((0, "", "models.Transformer"), (1, "1_Pooling", "models.Pooling"))
    ]
    (encoder / "modules.json").write_text(json.dumps(modules))
    (encoder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 192, "pooling_mode_cls_token": True}
    pooling["pooling_mode_mean_tokens"] = False
    (encoder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert key(spec) != before


def test_a_file_of_a_method_is_its_bytes(toy: Method, tmp_path: Path) -> None:
    one, copy, other = (tmp_path / name for name in ("one.txt", "copy.txt", "other.txt"))
    one.write_text(SENTENCES)
    copy.write_text(SENTENCES)
    other.write_text(SENTENCES + "A bird sings.\n")

    def now(file: Path | None) -> str:
        phrases = {} if file is None else {"phrases": str(file)}
        fixed = {"temperature": 0.05, **phrases}
        return key(sweep(method=toy.name, fixed=fixed, space={}))

    before = now(one)
    assert now(copy) == before
    assert len({now(None), now(one), now(other)}) == 3
    one.write_text(other.read_text())
    assert now(one) == now(other)
    one.unlink()
    with pytest.raises(SweepRefusedError, match=r"one\.txt' cannot be read: No such file"):
        now(one)
