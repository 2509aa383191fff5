import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cse_methods.contract import Method
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.encoders.loading import load_encoder
from cse_methods.published.released import teachers_of
from cse_methods.registry import get_method
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.identity import (
    DevData,
    Identity,
    canonical_hash,
    has_nothing_to_add,
    refuse_changes,
    training_data,
)
from cse_platform.sweep.spec import SweepSpec

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
    return Identity(spec, method, DevData(spec)).of_config(spec.config(assignment or {})).key(seed)


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
    spec = sweep()
    method, config = get_method(spec.method), spec.config({})
    ours, corrected = DevData(spec), DevData(spec)
    corrected.sha256 = {
        task: f"{sha256}, one gold score corrected" for task, sha256 in ours.sha256.items()
    }
    one, other = (Identity(spec, method, dev).of_config(config) for dev in (ours, corrected))
    assert one.hash != other.hash


def test_rows_of_one_mean_of_dev_sets_are_compared() -> None:
    picked = DevData(sweep(dev={"checkpoint": "sickr", "search": "stsb"})).columns
    climbed = DevData(sweep(dev={"checkpoint": "stsb", "search": "sickr"})).columns
    assert picked["identity"] != climbed["identity"]
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

    def columns(*picks: str, climbs: list[str]) -> dict[str, str]:
        return DevData(sweep(dev={"checkpoint": list(picks), "search": climbs})).columns

    both, one = columns("stsb", "sickr", climbs=["stsb"]), columns("stsb", climbs=["stsb"])
    assert (both["checkpoint"], one["checkpoint"]) == ("stsb+sickr", "stsb")
    assert both["identity"] == columns("sickr", "stsb", climbs=["stsb"])["identity"]
    # The same sets one after another, in other roles.
    others = [one, columns("stsb", climbs=["sickr", "stsb"]), columns("sickr", climbs=["stsb"])]
    others.append(columns("stsb", "sickr", climbs=["stsb", "sickr"]))
    assert len({both["identity"], *(other["identity"] for other in others)}) == 5


def test_names_orders_and_defaults_do_not_change_the_key(tmp_path: Path, encoder: Path) -> None:
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


def test_the_text_before_a_sentence_is_part_of_the_key(encoder: Path) -> None:
    load_encoder(str(encoder)).save(encoder)

    def now() -> list[str]:
        given: list[dict[str, Any]] = [{}, {"prompt": "q: "}, {"head": True}]
        teachers = ({"teachers": [{"model": str(encoder), **one}]} for one in given)
        taught = [{"teachers": ["mini"], **one} for one in given[:2]]
        backbones = [sweep(backbone=str(encoder), fixed=one) for one in taught]
        return [key(spec) for spec in (*backbones, *(sweep(fixed=one) for one in teachers))]

    before = now()
    own = {"prompts": {"own": "query: "}, "default_prompt_name": "own"}
    (encoder / "config_sentence_transformers.json").write_text(json.dumps(own))
    assert len({*before, *now()}) == 10


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


START: dict[str, Any] = {
    "sweep": "a", "method": "toy", "backbone": "mini", "corpus": "builtin",
    "fixed": {"views": 2},
    "space": {"temperature": [0.05, 0.1], "tau3": {"low": 0.1, "high": 0.3}},
    "search": {"trials": 3, "seed": 1},
}  # fmt: skip


@pytest.fixture
def stored(toy: Method) -> dict[str, Any]:
    """The sweep as the journal keeps it."""
    return SweepSpec.model_validate(START).model_dump(mode="json", exclude={"stores"})


def changed(**changes: Any) -> dict[str, Any]:
    return SweepSpec.model_validate(START | changes).model_dump(mode="json")


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"method": "simcse"}, "method = 'toy', and now it is 'simcse'"),
    ({"corpus": {"name": "builtin", "drop_empty": True}},
     "corpus.0.drop_empty = false, and now it is true"),
    ({"dev": {"search": "sickr"}}, "dev.search = 'stsb', and now it is 'sickr'"),
    ({"fixed": {"views": 3}}, "fixed.views = 2, and now it is 3"),
    ({"space": START["space"] | {"temperature": [0.05]}},
     "space.temperature.choices = [0.05, 0.1], and now it is [0.05]"),
    ({"space": START["space"] | {"tau3": {"low": 0.1, "high": 0.4}}},
     "space.tau3.high = 0.3, and now it is 0.4"),
    ({"space": START["space"] | {"epochs": [1]}},
     'space.epochs = null, and now it is {"when": {}, "choices": [1]}'),
    ({"search": {"trials": 3, "seed": 2}}, "search.seed = 1, and now it is 2"),
    ({"search": {"trials": 3, "seed": 1, "sampler": "random"}},
     "search.sampler = 'tpe', and now it is 'random'"),
    ({"seeds": {"search": 7}}, "seeds.search = 42, and now it is 7"),
    ({"seeds": {"repeats": True, "confirm": {"top": 1, "seeds": [0]}}},
     "seeds.repeats = false, and now it is true"),
]  # fmt: skip


def test_what_makes_another_sweep_is_refused_and_files_may_move(stored: dict[str, Any]) -> None:
    for changes, difference in DIFFERENCES:
        with pytest.raises(SweepRefusedError, match="NEWNAME") as caught:
            refuse_changes(stored, changed(**changes))
        told = f"sweep 'a' was started with {difference}; run it as another sweep: --set sweep="
        text, _, reuse = str(caught.value).partition("NEWNAME")
        assert f"{text}NEWNAME" == f"{told}NEWNAME"
        assert ("learn_from: [a]" in reuse) == (difference.startswith(("space", "search")))
    before = changed(corpus="my.txt")
    refuse_changes(before, changed(corpus="/lab/my.txt"))
    with pytest.raises(SweepRefusedError, match=r"corpus\.0\.name = 'my\.txt'.+other\.txt"):
        refuse_changes(before, changed(corpus="/lab/other.txt"))


def test_a_complete_sweep_is_extended_by_trials_seeds_and_test_sets(stored: dict[str, Any]) -> None:
    assert has_nothing_to_add(stored, changed())
    assert has_nothing_to_add(stored, changed(resources={"cpu": 2}))
    assert not has_nothing_to_add(stored, changed(search={"trials": 4, "seed": 1}))
    assert not has_nothing_to_add(stored, changed(seeds={"confirm": {"top": 1, "seeds": [0]}}))
    assert not has_nothing_to_add(stored, changed(evaluate={"top": 1, "tasks": ["sts"]}))
    refuse_changes(None, changed())  # a new one
    assert not has_nothing_to_add(None, changed())
    search = {"trials": 9, "seed": 1, "start_from": [{"temperature": 0.1}]}
    several = {"seeds": {"confirm": {"top": 2, "seeds": [0]}}, "resources": {"cpu": 2}}
    elsewhere = {"storage": "/elsewhere", "stores": {"leaderboard": "sqlite:///elsewhere.db"}}
    refuse_changes(stored, changed())
    refuse_changes(stored, changed(search=search, evaluate={"top": 1, "tasks": ["sts"]}))
    refuse_changes(stored, changed(**several, **elsewhere, experiment="other"))
    refuse_changes(stored, changed(pruner={"kind": "median"}, corpus={"name": "builtin"}))
    refuse_changes(stored, changed(space=dict(reversed(START["space"].items()))))


def test_every_dev_set_that_chose_is_named_once() -> None:
    dev = {"checkpoint": ["stsb", "sickr"], "search": "stsb", "also": ["transfer_dev"]}
    assert training_data({"dev": dev}, {}).chosen_on == ("stsb", "sickr")
    assert training_data({}, {}).chosen_on == ("stsb",)


def test_teachers_of_the_base_are_teachers_too() -> None:
    values = {"teachers": ["minilm", {"model": "simcse-bert-base", "max_length": 32}]}
    assert teachers_of(values) == ("minilm", "simcse-bert-base")
    assert teachers_of({"base": "rankcse", "base_teachers": ["minilm"]}) == ("minilm",)
    assert teachers_of({"teachers": None}) == teachers_of({}) == ()
