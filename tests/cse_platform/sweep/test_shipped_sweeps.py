"""The sweep files that we ship: each can start, as can every command that their heads show."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from failing import failing

from cse_methods.registry import get_method
from cse_platform.cli.sweep import main
from cse_platform.sweep.file import draft_sweep, load_sweep
from cse_platform.sweep.references import has_stage_references
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


def commands(path: Path) -> list[str]:
    """The commands that the comment at the head of a file shows, from their first argument on."""
    head = "".join(re.findall(r"^#.*\n", path.read_text(), re.M)).replace("\\\n#", " ")
    return re.findall(r"cse-sweep (sweeps/\S+(?: +--set +(?:'[^']*'|\S+))*)", head)


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder on a machine that has fetched nothing, where no lab has set anything."""
    for name in ("CSE_STORE", "CSE_SEARCH_STORE", "CSE_MLFLOW_URI", "CSE_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


def test_a_head_says_how_to_launch_and_what_it_needs(shipped: Shipped) -> None:
    def check(path: Path) -> None:
        launch = path.relative_to(ROOT).as_posix()
        assert commands(path)[0] == launch
        assert {command.split()[0] for command in commands(path)} == {launch}
        assert "Needs:" in path.read_text()

    assert not failing(check, shipped)


@pytest.mark.usefixtures("bare_machine")
@some_or_all
def test_a_dry_run_lists_what_must_be_fetched(shipped: Shipped, chosen: bool) -> None:
    """Of every command that the head of a file shows."""

    def check(command: str) -> None:
        file, *options = shlex.split(command)
        result = CliRunner().invoke(main, [str(ROOT / file), *options, "--dry-run"])
        assert result.exit_code == 0, result.output
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
            assert set(point) == {name for name in spec.space if spec.space.is_active(name, point)}

    unpublished = ("quickstart", "untrained", "static", "released", "baselines", "simcse-views")
    searches = [
        path
        for path in shipped
        if path.parent.name != "papers"
        and path.stem not in unpublished
        and not path.stem.startswith("mini-")  # no paper has settings for `mini`
    ]
    assert not failing(check, searches)


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
            if not has_stage_references(spec.fixed):  # which a sweep alone has no stages for
                draft = draft_sweep(spec)
                made = draft.finish([stage.inspection for stage in draft.stages])
                assert made.stages == (spec,)

    assert not failing(check, choose(shipped, chosen))
