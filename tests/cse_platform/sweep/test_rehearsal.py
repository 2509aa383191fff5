from pathlib import Path
from typing import Any

import pytest
from failing import failing

from cse_methods.registry import get_method
from cse_platform.sweep.rehearsal import Rehearsal, rehearse
from cse_platform.sweep.spec import SweepSpec

pytestmark = pytest.mark.xdist_group("shipped sweeps")
CHOSEN = ("bertflow", "hicl", "mini-rankcse", "static", "whitenedcse-table6")


GRID = {"sampler": "grid"}
TAUGHT = {"teachers": ["mini"]}
NO_PRUNER = {"kind": "none"}


def sweep(**changes: Any) -> SweepSpec:
    """RankCSE as a lab asks for it, with changes."""
    asked = {
        "sweep": "lab", "method": "rankcse", "backbone": "bert-large", "corpus": "wiki1m",
        "fixed": {
            "epochs": 4, "batch_size": 128, "precision": "fp16", "max_length": 32,
            "teachers": ["simcse-bert-base", {"model": "mini", "pooler": "avg", "head": True}],
        },
        "space": {"tau2": [0.025, 0.05], "alpha": {"low": 0.0, "high": 1.0}},
        "search": {"sampler": "tpe", "trials": 40, "start_from": ["published"]},
        "seeds": {"search": 42, "confirm": {"top": 3, "seeds": [42, 0, 1]}},
        "resources": {"gpu": 0.5, "cpu": 4, "fresh_process": True},
        "pruner": {"kind": "curve", "min_step": 500},
        "evaluate": {"top": 2, "tasks": ["sts", "transfer"]},
        "stores": {"leaderboard": "postgresql+psycopg://lab/cse"},
        "storage": "s3://lab/runs", "notify": ["json://lab"], "tags": ["table-2"],
    }  # fmt: skip
    return SweepSpec.model_validate(asked | changes)


def alone(spec: SweepSpec) -> Rehearsal:
    (found,) = rehearse([spec], Path("runs"))
    return found


def test_what_is_large_is_replaced_and_it_writes_below_its_folder_alone() -> None:
    spec = alone(sweep()).spec
    found = (spec.backbone, spec.data, spec.sweep, spec.method)
    assert found == ("mini", "builtin", "lab", "rankcse")
    assert [(one.name, one.first) for one in spec.corpus] == [("builtin", 1000)]
    assert spec.fixed == {
        "epochs": 4, "batch_size": 128, "precision": "fp32", "max_length": 32, "max_steps": 2,
        "eval_steps": 2, "teachers": ["mini", {"model": "mini", "pooler": "avg"}],
    }  # fmt: skip
    assert (spec.resources.gpu, spec.resources.cpu, spec.resources.fresh_process) == (0, 1, True)
    assert spec.pruner.kind == "none"
    assert spec.seeds.confirm is not None
    assert (spec.seeds.confirm.top, spec.seeds.confirm.seeds) == (3, (0,))
    assert spec.evaluate == sweep().evaluate
    large = alone(sweep(evaluate={"top": 2, "tasks": ["mteb:NFCorpus", "sts", "transfer"]}))
    assert large.spec.evaluate == spec.evaluate
    assert alone(sweep(evaluate={"top": 2, "tasks": ["mteb:NFCorpus"]})).spec.evaluate is None
    here = Path("runs").absolute()
    stores = ("leaderboard", "search", "mlflow")
    assert dict(spec.stores) == {name: f"sqlite:///{here}/{name}.db" for name in stores}
    assert (spec.storage, spec.notify) == (None, ())
    assert spec.tags == ("table-2", "smoke")
    search = spec.search
    assert search.sampler.kind == "tpe"
    assert search.start_from == (
        {"tau2": 0.025, "alpha": 0.0},
        {"tau2": 0.05, "alpha": 0.0},
        {"tau2": 0.025, "alpha": 1.0},
    )
    assert search.trials == 3 + 2


@pytest.mark.parametrize(("choices", "points"), [(40, None), (41, 41)])
def test_a_small_grid_is_tried_whole(choices: int, points: int | None) -> None:
    space = {"tau2": [n / 100 for n in range(1, choices + 1)]}
    search = alone(sweep(space=space, search=GRID)).spec.search
    assert search.trials == points
    assert search.sampler.kind == ("grid" if points is None else "random")


def test_of_a_large_grid_each_value_is_tried() -> None:
    space = {"tau2": [0.01, 0.02, 0.03, 0.04], "tau3": [0.01, 0.02, 0.03, 0.04], "beta": [0, 1, 2]}
    found = alone(sweep(space=space, search=GRID))
    points = found.spec.search.start_from
    told = [*found.describe_changes()]
    assert "pruner: 'curve' becomes 'none'" in told
    assert "search.sampler: 'grid' becomes 'random'" in told
    assert {(n, v) for point in points for n, v in dict(point).items()} == {
        (name, value) for name, values in space.items() for value in values
    }
    assert len(points) == 9


def test_what_is_too_large_for_mini_becomes_the_next_smaller_that_fits() -> None:
    for method, settings, told in (
        ("whitenedcse", {"groups": 128}, ["fixed.groups: 128 becomes 96"]),
        ("whitenedcse", {"groups": 48}, []),
        ("compcse", {"d0": 768}, ["fixed.d0: 768 becomes 192"]),
    ):
        found = alone(sweep(method=method, fixed=settings, space={}, search=GRID, pruner=NO_PRUNER))
        changes = [*found.describe_changes()]
        named = [line for line in changes if line.startswith(("fixed.groups", "fixed.d0"))]
        assert named == told


def test_choices_that_become_one_are_one_and_each_point_finds_its_stand_in() -> None:
    asked = {"method": "compcse", "fixed": {}, "space": {"d0": [96, 192, 256, 768]}}
    found = alone(sweep(**asked, search=GRID, pruner=NO_PRUNER))
    assert list(found.spec.grid_points()) == [{"d0": 96}, {"d0": 192}]
    assert found.replace_point({"d0": 768}) == {"d0": 192}
    choices = [["simcse-bert-base"], ["mini", "mini"]]
    when = {"teachers": [["simcse-bert-base"]]}
    space = {"teachers": choices, "tau3": {"choices": [0.1, 0.2], "when": when}}
    found = alone(sweep(space=space, fixed={}, search=GRID)).spec.space
    assert str(*found["tau3"].when) == 'teachers = ["mini"]'


def test_the_best_of_an_earlier_stage_stays_and_others_are_mini() -> None:
    best = {"best": {"method": "simcse", "backbone": "bert-base"}}
    first = sweep(sweep="first", method="simcse", fixed={}, space={}, search=GRID)
    second = sweep(fixed={"teachers": [best]}, space={"tau2": [0.05]})
    assert rehearse([first, second], Path())[1].spec.fixed["teachers"] == [
        {"best": {"method": "simcse", "backbone": "mini"}}
    ]
    assert alone(second).spec.fixed["teachers"] == ["mini"]


def test_what_needs_another_store_or_a_gpu_is_left_out_and_told() -> None:
    search = {
        "sampler": "tpe", "trials": 9, "budget": {"time": "2h"},
        "start_from": ["leaderboard", {"tau2": 0.05}], "learn_from": ["last-year"],
    }  # fmt: skip
    found = alone(sweep(search=search))
    assert (found.spec.search.budget, found.spec.search.learn_from) == (None, ())
    assert 'search.learn_from: ["last-year"] becomes []' in [*found.describe_changes()]


def test_layers_that_lora_names_are_those_of_mini() -> None:
    lora = {"rank": 4, "target_modules": ["q_proj"]}
    space, search = {"learning_rate": [1e-4, 1e-3]}, {"sampler": "grid"}
    decoder = sweep(method="st", fixed={"lora": lora}, space=space, search=search, pruner="none")
    assert alone(decoder).spec.fixed["lora"] == {"rank": 4}  # then all-linear


def test_data_that_is_given_stays(tmp_path, monkeypatch) -> None:
    (tmp_path / "downstream").mkdir()
    assert alone(sweep(data=str(tmp_path))).spec.data == str(tmp_path)
    assert alone(sweep(data="hub")).spec.data == "builtin"
    monkeypatch.setenv("CSE_DATA", str(tmp_path))
    assert alone(sweep()).spec.data is None  # CSE_DATA then, as in the sweep


def test_corpora(tmp_path: Path) -> None:
    both = ["wiki1m", {"name": "wikitext103", "split_at": 32}, "wiki1m", {"name": "x", "first": 9}]
    corpora = alone(sweep(corpus=both)).spec.corpus
    assert {c.name for c in corpora} == {"builtin"}
    assert [(c.split_at, c.first) for c in corpora] == [(None, 1000), (32, 1000), (None, 9)]
    phrases = {"subsampling": "adjacent", "phrases": "./mine.txt"}  # of another corpus
    found = alone(sweep(method="compcse", fixed=phrases, space={}))
    assert found.spec.fixed["phrases"] is None
    assert "fixed.phrases: './mine.txt' becomes null" in found.describe_changes()


@pytest.mark.parametrize(
    "names", [pytest.param(CHOSEN, id="five"), pytest.param((), marks=pytest.mark.slow, id="all")]
)
def test_every_shipped_file_can_be_rehearsed(shipped, names) -> None:
    """Each configuration is one of its method, on `mini`."""

    def check(path: Path) -> None:
        stages = shipped[path]
        for found, original in zip(rehearse(stages, Path()), stages, strict=True):
            for point in found.spec.search.start_from or found.spec.grid_points():
                found.spec.config(point).check_width(192)
            for point in original.examples:
                there = found.spec.space.select_active(found.replace_point(point))
                found.spec.config(there).check_width(192)
            assert found.spec.planned is not None and found.spec.planned <= 40
            assert get_method(found.spec.method).name == original.method

    files = [path for path in shipped if not names or path.stem in names]
    assert len(files) >= len(names)
    assert not failing(check, files)
