"""What `cse-dashboard publish` puts into a sweep's run in MLflow."""

import socket

import pytest
from click.testing import CliRunner, Result
from mlflow_lab import *  # noqa: F403
from mlflow_lab import SPEC, A, Lab

from cse_dashboards.cli import main
from cse_platform.tracking.events import SweepFinished
from cse_platform.tracking.mlflow.sweep_run import sweep_run
from cse_platform.tracking.mlflow.tags import USER_LINE


def publish(lab: Lab, sweep: str = "first", *, mlflow: str | None = None) -> Result:
    stores = {"CSE_STORE": lab.leaderboard, "CSE_MLFLOW_URI": mlflow or lab.mlflow}
    return CliRunner().invoke(main, ["publish", sweep], env=stores)


def test_the_description_ranks_the_configurations(lab: Lab) -> None:
    assert publish(lab).exit_code == 0

    said = lab.description
    assert "Sweep **first**, rankcse on mini: running, 3 of 3 trials ended, 3 complete." in said
    assert "Best on dev stsb: 80.00 (at step 9, trial 2, seed 0)." in said
    table = [line for line in said.splitlines() if line.startswith("|")]
    assert table[0] == "| rank | configuration | searched | seeds | dev stsb | best trial |"
    first, second = table[2:]
    assert first.startswith(
        r"| 1 | aaaaaaaa | tau2=0.025 rank\_loss=listnet | 0, 42 | 75.00 ±7.07 | [aaaaaaaa]("
    )
    assert second.startswith("| 2 | bbbbbbbb | tau2=0.05 | 42 | 60.00 | [bbbbbbbb](")


def test_a_trial_in_the_ranking_leads_to_its_run(lab: Lab) -> None:
    publish(lab)
    found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
    (link,) = found.links([f"{A}-0", "unknown"]).values()
    assert f"[aaaaaaaa]({link})" in lab.description
    child = found.client.get_run(link.rpartition("/")[2].partition("?")[0])
    assert child.info.run_name == "rankcse aaaaaaaa seed 0 (#2)"


def test_what_a_user_wrote_below_stays(lab: Lab) -> None:
    def note(text: str) -> None:
        found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
        found.client.set_tag(found.id, "mlflow.note.content", text)

    publish(lab)
    note(lab.description + "\nbuy *milk*")
    publish(lab)
    assert lab.description.count(USER_LINE) == 1
    assert lab.description.endswith(f"\n\n{USER_LINE}\nbuy *milk*")
    note("all my own")
    publish(lab)
    assert lab.description.startswith("Sweep **first**")
    assert lab.description.endswith(f"\n\n{USER_LINE}\n\nall my own")


def test_a_running_sweep_has_its_report_and_a_complete_one_its_chapters(lab: Lab) -> None:
    publish(lab)
    assert list(lab.files) == ["report.html"]
    lab.record(SweepFinished(sweep="first", state="COMPLETE"))
    assert publish(lab).exit_code == 0
    files = lab.files
    assert {"report.html", "figures/ranking.html", "figures/search.html"} <= {*files}
    assert "rankcse" in files["report.html"]


def test_a_sweep_without_a_complete_trial_has_a_description_only(lab: Lab, sweep_started) -> None:
    spec = SPEC.model_copy(update={"sweep": "second"}).model_dump(mode="json")
    lab.record(sweep_started("second", spec=spec))
    assert publish(lab, "second").exit_code == 0
    found = sweep_run(lab.mlflow, experiment="cse", sweep="second")
    assert "0 of " in found.tags["mlflow.note.content"]
    assert found.client.list_artifacts(found.id) == []


@pytest.mark.parametrize("deleted", [True, False])
def test_without_a_run_or_a_sweep_it_is_refused(lab: Lab, deleted: bool) -> None:
    if deleted:
        found = sweep_run(lab.mlflow, experiment="cse", sweep="first")
        found.client.delete_run(found.id)
    ended = publish(lab, "first" if deleted else "frist")
    assert ended.exit_code == 1
    assert "first" in ended.output
    assert not deleted or lab.run is None  # it stays deleted


def test_a_store_that_is_away_is_one_line(lab: Lab) -> None:
    with socket.socket() as bound:  # nobody listens here
        bound.bind(("127.0.0.1", 0))
        away = f"http://someone:secret@127.0.0.1:{bound.getsockname()[1]}"
        ended = publish(lab, mlflow=away)
    assert ended.exit_code == 1
    [line] = ended.output.splitlines()
    assert "secret" not in line
