"""The sweep files that we ship: each can start, as can every command that their heads show."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cse_methods.registry import get_method
from cse_platform.cli.sweep import main
from cse_platform.sweep.file import draft_sweep, load_sweep
from cse_platform.sweep.references import has_stage_references
from cse_platform.sweep.start_points import start_points
from cse_platform.sweep.yaml_file import read_yaml

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "sweeps").rglob("*.yaml"))
SEARCHES = [
    path
    for path in FILES
    if path.parent.name != "papers"
    and path.stem not in ("quickstart", "untrained", "static", "released", "baselines")
    # No paper has settings for `mini`.
    and not path.stem.startswith("mini-")
    and path.stem != "simcse-views"
]


def commands(path: Path) -> list[str]:
    """The commands that the comment at the head of a file shows, from their first argument on."""
    head = "".join(re.findall(r"^#.*\n", path.read_text(), re.M)).replace("\\\n#", " ")
    return re.findall(r"cse-sweep (sweeps/\S+(?: +--set +(?:'[^']*'|\S+))*)", head)


COMMANDS = [command for path in FILES for command in commands(path)]


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder on a machine that has fetched nothing, where no lab has set anything."""
    for name in ("CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI", "CSE_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


def test_there_are_files() -> None:
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_head_says_how_to_launch_and_what_it_needs(path: Path) -> None:
    launch = path.relative_to(ROOT).as_posix()
    assert commands(path)[0] == launch
    assert {command.split()[0] for command in commands(path)} == {launch}
    assert "Needs:" in path.read_text()


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.removeprefix("sweeps/"))
def test_a_dry_run_lists_what_must_be_fetched(command: str) -> None:
    file, *options = shlex.split(command)
    result = CliRunner().invoke(main, [str(ROOT / file), *options, "--dry-run"])
    assert result.exit_code == 0, result.output
    for stage in load_sweep(ROOT / file, overrides=options[1::2]).stages:
        names = {f"corpus {corpus.name} (" for corpus in stage.corpus if corpus.name != "builtin"}
        names |= {f"encoder {stage.backbone}:"} if stage.backbone != "mini" else set()
        names |= {f"dev set {task} (" for task in stage.dev.tasks if stage.data != "builtin"}
        assert all(f"  to fetch: {name}" in result.output for name in names)


def test_every_sweep_has_a_name_of_its_own_after_its_file() -> None:
    names = [(path, stage["sweep"]) for path in FILES for stage in own_stages(path)]
    assert len({name for _, name in names}) == len(names)
    for path, name in names:
        assert name.startswith(path.stem.removesuffix("-roberta"))


def own_stages(path: Path) -> list[dict[str, Any]]:
    """The sweeps that a file writes out, without those of files that it includes."""
    data = read_yaml(path.read_text()).data
    return [stage for stage in data.get("stages", [data]) if "file" not in stage]


@pytest.mark.parametrize("path", SEARCHES, ids=lambda path: path.stem)
def test_a_search_starts_from_all_that_is_published(path: Path) -> None:
    (spec,) = load_sweep(path).stages
    method = get_method(spec.method)
    columns = [column for column in method.published if column.backbone == spec.backbone]
    assert columns
    for column, point in zip(columns, start_points(spec, method), strict=True):
        values = spec.settings(point)
        config = method.config.model_validate(values)
        told = {**column.settings, **column.variant}
        assert {name: values.get(name, getattr(config, name)) for name in told} == told
        assert set(point) == {name for name in spec.space if spec.space.is_active(name, point)}


def test_choices_that_have_no_effect_beside_each_other_are_told(tmp_path: Path) -> None:
    """The method's own conditions are tried, though the file does not write them with `when`."""
    file = tmp_path / "mine.yaml"
    file.write_text(
        "sweep: mine\nmethod: compcse\nbackbone: mini\ncorpus: builtin\ndata: builtin\n"
        "space:\n  subsampling: [none, adjacent]\n  partitions: [2, 3]\n  d0: [64, 96]\n"
        "search: {sampler: tpe, trials: 4}\n"
    )
    result = CliRunner().invoke(main, [str(file), "--dry-run"])
    assert result.exit_code == 1
    told = "line 8, space.partitions: partitions=3 has no effect with subsampling: adjacent; leave"
    assert told in result.output


TOTAL = re.compile(
    r"^# Total: about (?P<terms>.*) = (?P<hours>[\d.]+) "
    r"(?:GPU-hours, (?P<price>\d+) USD at 2 USD an hour|CPU-hours)\.$",
    re.MULTILINE,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_total_of_a_head_is_that_of_its_trials(path: Path) -> None:
    """`3 x 2 h + 1 x 30 min = 6.5 GPU-hours, 13 USD at …`: all trials, confirming seeds too."""
    total = TOTAL.search(path.read_text())
    assert total is not None
    terms = re.findall(r"(\d+) x ([\d.]+) (h|min|s)", total["terms"])
    assert " + ".join(" ".join((n, "x", t, unit)) for n, t, unit in terms) == total["terms"]
    planned = sum(stage.planned for stage in load_sweep(path).stages)
    assert sum(int(number) for number, _, _ in terms) == planned
    per_hour = {"h": 1, "min": 60, "s": 3600}
    hours = sum(int(number) * float(time) / per_hour[unit] for number, time, unit in terms)
    assert float(total["hours"]) == pytest.approx(hours, abs=0.051)
    needs_gpu = any(stage.resources.gpu for stage in load_sweep(path).stages)
    assert (total["price"] is not None) == needs_gpu
    if needs_gpu:
        assert float(total["price"]) == pytest.approx(2 * hours, abs=0.51)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_sweep_made_in_python_is_that_of_its_file(path: Path) -> None:
    for spec in load_sweep(path).stages:
        if not has_stage_references(spec.fixed):  # which a sweep alone has no stages for
            draft = draft_sweep(spec)
            made = draft.finish([stage.inspection for stage in draft.stages])
            assert made.stages == (spec,)
