import json
import re
import shlex
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from failing import failing

from cse_methods.config import MethodConfig
from cse_methods.contract import PublishedSettings
from cse_methods.registry import get_method
from cse_platform.cli.sweep import main
from cse_platform.sweep.file import draft_sweep, load_sweep
from cse_platform.sweep.references import find_stage_references
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import start_points

pytestmark = pytest.mark.xdist_group("shipped sweeps")

Shipped = dict[Path, tuple[SweepSpec, ...]]
ROOT = Path(__file__).parents[3]
CHOSEN = (
    "arccse", "hicl-roberta", "mini-contrastive", "quickstart", "rankcse", "released", "static",
    "papers/compcse-figure2", "papers/hicl-table7", "papers/rankcse-teachers",
)  # fmt: skip
"""One of each kind: a search, stages, stages of other files, baselines, references, a figure."""
some_or_all = pytest.mark.parametrize(
    "chosen", [pytest.param(True, id="ten"), pytest.param(False, marks=pytest.mark.slow, id="all")]
)


def choose(shipped: Shipped, chosen: bool) -> list[Path]:
    files = [ROOT / "sweeps" / f"{name}.yaml" for name in CHOSEN]
    return files if chosen else list(shipped)


def head(path: Path) -> str:
    """The comment at the head of a file, as one line."""
    [comment] = re.findall(r"\A(?:#.*\n)+", path.read_text())
    return " ".join(comment.replace("\\\n#", " ").replace("\n#", " ").split())


def commands(path: Path) -> list[str]:
    """The commands that the head of a file shows, from their first argument on."""
    return re.findall(r"cse-sweep (sweeps/\S+(?: +--set +(?:'[^']*'|\S+))*)", head(path))


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder on a machine that has fetched nothing."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("bare_machine")
@some_or_all
def test_a_dry_run_lists_what_must_be_fetched(shipped: Shipped, chosen: bool) -> None:
    """Of every command that the head of a file shows."""

    def check(command: str) -> None:
        file, *options = shlex.split(command)
        result = invoke(main, ROOT / file, *options, "--dry-run")
        path, overrides = ROOT / file, options[1::2]
        stages = load_sweep(path, overrides=overrides).stages if overrides else shipped[path]
        for stage in stages:
            names = {f"corpus {one.name} (" for one in stage.corpus if one.name != "builtin"}
            names |= {f"encoder {stage.backbone}:"} if stage.backbone != "mini" else set()
            names |= {f"dev set {task} (" for task in stage.dev.tasks if stage.data != "builtin"}
            assert all(f"  to fetch: {name}" in result.output for name in names)

    files = choose(shipped, chosen)
    assert not failing(check, [command for path in files for command in commands(path)])


def test_every_sweep_has_a_name_of_its_own_after_its_file(shipped: Shipped) -> None:
    """Of the sweeps that a file writes out, without those of files that it includes."""
    own = {
        path: re.findall(r"^[^#\n]*\bsweep: ([\w.-]+)", path.read_text(), re.M) for path in shipped
    }
    names = [name for found in own.values() for name in found]
    assert len(set(names)) == len(names)
    assert set(names) == {stage.sweep for stages in shipped.values() for stage in stages}
    for path, found in own.items():
        assert all(name.startswith(path.stem.removesuffix("-roberta")) for name in found), path


def test_a_search_starts_from_all_that_is_published(shipped: Shipped) -> None:
    def check(path: Path) -> None:
        (spec,) = shipped[path]
        method = get_method(spec.method)
        columns = [column for column in method.published if column.backbone == spec.backbone]
        assert columns
        for column, point in zip(columns, start_points(spec, method), strict=True):
            values = spec.settings(point)
            config = method.config.model_validate(values)
            told = {**column.settings, **column.variant}
            assert {name: values.get(name, getattr(config, name)) for name in told} == told
            assert column.note or find_differences(config, spec.config_of(told)) <= {"eval_steps"}
            assert set(point) == {name for name in spec.space if spec.space.is_active(name, point)}

    unpublished = (
        "macl",
        "quickstart",
        "untrained",
        "static",
        "released",
        "baselines",
        "simcse-views",
    )
    searches = [
        path
        for path in shipped
        if path.parent.name != "papers"
        and path.stem not in unpublished
        and not path.stem.startswith(("mini-", "st-"))  # of which no paper has settings
    ]
    assert not failing(check, searches)


def find_differences(config: MethodConfig, other: MethodConfig) -> set[str]:
    return {name for name, value in config if getattr(other, name) != value}


def test_the_baselines_are_whole_published_columns(shipped: Shipped) -> None:
    """In both directions: what the file fixes, the column has, unless it notes that it is less."""
    departs = {
        "bertflow": {"encoder_dropout", "optimizer_epsilon", "eval_steps"},  # as its head says
        "diffcse": {"learning_rate", "eval_steps"},  # chosen on transfer dev sets
    }
    compared = set()
    for stage in shipped[PAPERS.parent / "baselines.yaml"]:
        config = stage.config(next(stage.grid_points()))
        for column in get_method(stage.method).published:
            if column.backbone == stage.backbone and not column.note:
                other = stage.config_of(dict(column.settings))
                allowed = departs.get(stage.method, set())
                assert find_differences(config, other) <= allowed, stage.sweep
                compared.add(stage.sweep.removeprefix("baselines-"))
    assert {"ct-bert-base", "dclr-bert-large", "dclr-roberta-large"} <= compared


TOTAL = re.compile(
    r"^# Total: about (?P<terms>.*) = (?P<hours>[\d.]+) "
    r"(?:GPU-hours, (?P<price>\d+) USD at 2 USD an hour|CPU-hours)\.$",
    re.MULTILINE,
)


def test_the_total_of_a_head_is_that_of_its_trials(shipped: Shipped) -> None:
    """`3 x 2 h + 1 x 30 min = 6.5 GPU-hours, 13 USD at …`: all trials, confirming seeds too."""

    def check(path: Path) -> None:
        total = TOTAL.search(path.read_text())
        assert total is not None
        terms = re.findall(r"(\d+) x ([\d.]+) (h|min|s)", total["terms"])
        assert " + ".join(" ".join((n, "x", t, unit)) for n, t, unit in terms) == total["terms"]
        planned = sum(stage.planned or 0 for stage in shipped[path])
        assert sum(int(number) for number, _, _ in terms) == planned
        per_hour = {"h": 1, "min": 60, "s": 3600}
        hours = sum(int(number) * float(time) / per_hour[unit] for number, time, unit in terms)
        assert float(total["hours"]) == pytest.approx(hours, abs=0.051)
        needs_gpu = any(stage.resources.gpu for stage in shipped[path])
        assert (total["price"] is not None) == needs_gpu
        if needs_gpu:
            assert float(total["price"]) == pytest.approx(2 * hours, abs=0.51)

    assert not failing(check, shipped)


@some_or_all
def test_a_sweep_made_in_python_is_that_of_its_file(shipped: Shipped, chosen: bool) -> None:
    def check(path: Path) -> None:
        for spec in shipped[path]:
            if not find_stage_references(spec.fixed):  # which a sweep alone has no stages for
                draft = draft_sweep(spec)
                made = draft.finish()
                assert made.stages == (spec,)

    assert not failing(check, choose(shipped, chosen))


Stages = Callable[[str], list[SweepSpec]]
PAPERS = Path(__file__).parents[3] / "sweeps" / "papers"
FILES = {path.stem: path for path in PAPERS.glob("*-*.yaml")}
WHOLE = {path.stem: path for path in PAPERS.glob("*.yaml") if path.stem not in FILES}
"""A file for each paper, of its tables."""
SETTINGS = {"hicl-table13", "rankcse-table9"}
"""The searches that led to tables of settings."""

Facts = dict[str, Any]
BASE: Facts = {"batch_size": 256, "precision": "fp32"}
LARGE: Facts = {"batch_size": 128, "precision": "fp16"}
"""HiCL's authors train all methods with one batch size and one precision a size."""
LONG: Facts = {"max_length": 512}
TRAINED: Facts = {"teachers": ["best:simcse/bert-base", "best:simcse/bert-large"]}
DEPARTURES: list[tuple[str, Facts]] = [
    ("hicl-table1-[es]*-base hicl-table10-simcse hicl-table8-simcse", BASE),
    ("hicl-table1-[es]*-large", LARGE),
    ("hicl-table12-simcse-*-base", BASE | LONG),
    ("hicl-table12-simcse-*-large", LARGE | LONG),
    # Alpha is searched at one learning rate.
    ("hicl-table13-*-base-alpha", {"learning_rate": 1e-5}),
    ("hicl-table13-*-large-alpha", {"learning_rate": 5e-6}),
    # The figures are of the first steps.
    ("compcse-figure2-simcse", {"eval_steps": 10}),
    ("compcse-figure2-compcse", {"eval_steps": 10, "d0": 768}),
    ("compcse-figure3-*", {"eval_steps": 25}),
    # The paper states one batch and one learning rate a size for all models (section 4).
    ("compcse-table2-simcse-roberta-base", {"batch_size": 64, "learning_rate": 3e-5}),
    ("compcse-table2-simcse-roberta-large", {"batch_size": 64, "learning_rate": 1e-5}),
    # The values that these tables share are those of whole vectors in table 6.
    ("compcse-table[2345]-bert-base", {"d0": 768}),
    ("hicl-table5-simcse hicl-table5-hicl", {"batch_size": 64}),
    ("hicl-table6-simcse-* hicl-table9-*-large-simcse rankcse-table11-simcse-bert-*",
     {"batch_size": 128}),
    ("hicl-table6-sncse-* hicl-table9-*-large-sncse", {"precision": "fp16"}),
    # One teacher has no other to be weighed against.
    ("rankcse-table5-*-one", {"alpha": None}),
    # A dev evaluation on the transfer tasks takes minutes.
    ("rankcse-table10-*", {"eval_steps": 1000}),
    ("rankcse-teachers-list*-bert-base", TRAINED),
    # There are no groups without group whitening.
    ("whitenedcse-table3-simcse whitenedcse-table3-whole whitenedcse-table6-dropout",
     {"groups": None}),
]  # fmt: skip
"""Where a sweep's fixed settings are not those that its method's paper printed, and why."""


@pytest.fixture(scope="module")
def stages(shipped: dict[Path, tuple[SweepSpec, ...]]) -> Stages:
    """The sweeps of a file; what they take from earlier ones is what the paper has found."""
    return lambda name: [
        with_published_values(one) if find_stage_references(one.fixed) else one
        for one in shipped[(FILES | WHOLE)[name]]
    ]


def with_published_values(stage: SweepSpec) -> SweepSpec:
    told = published(stage, facts(stage, next(stage.space.grid_points())))
    found = {name: told[name] for name in find_stage_references(stage.fixed)}
    return stage.model_copy(update={"fixed": stage.fixed | found})


def facts(stage: SweepSpec, point: Mapping[str, Any]) -> Facts:
    """A configuration as the published settings write it."""
    config = stage.config(point).model_dump(mode="json")
    teachers = [teacher["model"] for teacher in config.get("teachers", [])]
    return config | {"method": stage.method, "teachers": teachers}


def agree(row: Facts, tried: Facts) -> bool:
    return all(name in tried and tried[name] == told for name, told in row.items())


def test_a_papers_file_runs_all_its_tables_and_trains_nothing_twice(stages: Stages) -> None:
    def check(name: str) -> None:
        tables = [table for table in FILES if table.startswith(name)]
        of_tables = {trial for table in tables for trial in trials(stages(table))}
        of_paper = trials(stages(name))
        assert set(of_paper) == of_tables
        told = re.search(r"(\d+) of (\d+) trials are new", WHOLE[name].read_text())
        assert told is not None
        assert told.groups() == (str(len(of_tables)), str(len(of_paper)))

    assert not failing(check, WHOLE)


def trials(stages: list[SweepSpec]) -> list[str]:
    """What tells the trials of a file from each other; the first configurations are confirmed."""
    found = []
    for stage in stages:
        confirmed = 0 if stage.seeds.confirm is None else stage.seeds.confirm.top
        for position, point in enumerate(stage.grid_points()):
            config = stage.config(point).model_dump(mode="json")
            further = stage.seeds.further if position < confirmed else ()
            seeds = (stage.seeds.search, *further)
            found += [json.dumps([stage.method, config, seed]) for seed in seeds]
    return found


def test_all_else_is_as_published(stages: Stages) -> None:
    def check(name: str) -> None:
        for stage in stages(name):
            for point in stage.space.grid_points():
                found = facts(stage, point)
                expected = published(stage, found)
                for names, departure in DEPARTURES:
                    if any(fnmatch(stage.sweep, name) for name in names.split()):
                        expected |= departure
                expected = {k: v for k, v in expected.items() if k not in stage.space}
                assert {k: found[k] for k in expected} == expected, stage.sweep

    assert not failing(check, FILES)


def test_hicl_starts_from_the_released_settings_of_its_bases(shipped) -> None:
    (stage,) = shipped[PAPERS.parent / "hicl-roberta.yaml"]
    settings = ("queue_size", "repetition_rate", "dropout")
    for size, released in (("base", [160, 0.30, 0.1]), ("large", [128, 0.28, 0.15])):
        spec = stage.model_copy(update={"backbone": f"roberta-{size}"})
        points = {point["base"]: point for point in start_points(spec, get_method("hicl"))}
        assert [points["esimcse"][name] for name in settings] == released
        assert points["sncse"]["margin_weight"] == 5e-4


def test_a_file_is_a_whole_grid_on_the_papers_dev_sets(stages: Stages) -> None:
    def check(name: str) -> None:
        for stage in stages(name):
            assert stage.search.sampler.kind == "grid" and stage.search.trials is None
            picks = {"rankcse-table10": "transfer_dev"}.get(name, "stsb")
            assert stage.dev.checkpoint == picks
            assert stage.dev.search == ("sickr" if name.startswith("hicl") else picks)

    assert not failing(check, FILES)


def test_a_search_tries_what_the_paper_searched(stages: Stages) -> None:
    for stage in [stage for name in SETTINGS for stage in stages(name)]:
        point = next(stage.space.grid_points())
        columns = columns_of(stage, facts(stage, point))
        searched = {name: one for column in columns for name, one in column.searched.items()}
        for dimension, choices in stage.space.items():
            assert list(choices.grid_values()) == list(searched[dimension]), stage.sweep


def published(stage: SweepSpec, found: Facts) -> Facts:
    """The settings of a method's columns that are of this variant, those of its base below them."""
    columns = columns_of(stage, found)
    return {name: value for column in columns for name, value in column.settings.items()}


def columns_of(stage: SweepSpec, found: Facts) -> list[PublishedSettings]:
    methods = [found["base"], stage.method] if found.get("base") else [stage.method]
    columns = [
        column
        for method in methods
        for column in sorted(get_method(method).published, key=lambda column: len(column.variant))
        if column.backbone == stage.backbone and agree(dict(column.variant), found)
    ]
    assert columns or not get_method(stage.method).published
    return columns
