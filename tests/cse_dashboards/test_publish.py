import socket

import pytest
from click.testing import Result
from commands import invoke
from mlflow_lab import *  # noqa: F403
from mlflow_lab import SPEC, A, Lab
from sweep_events import sweep_started

from cse_dashboards.cli import main
from cse_platform.stores.mlflow.tags import USER_LINE
from cse_platform.tracking.events import SweepFinished


def publish(lab: Lab, sweep: str = "first", *, mlflow: str | None = None, code: int = 0) -> Result:
    stores = {"CSE_STORE": lab.leaderboard, "CSE_MLFLOW_URI": mlflow or lab.mlflow}
    return invoke(main, "publish", sweep, env=stores, code=code)


def test_a_running_sweep_has_its_description_and_its_report(lab: Lab) -> None:
    publish(lab)

    said = lab.description
    assert "Sweep **first**, rankcse on mini: running, 3 of 3 trials ended, 3 complete." in said
    assert "Best on dev stsb: 80.00 (at step 9, trial 2, seed 0)." in said
    table = [line for line in said.splitlines() if line.startswith("|")]
    assert table[0] == "| rank | configuration | searched | seeds | dev stsb | best trial |"
    first, second = table[2:]
    searched = r"tau2=0.025 rank\_loss=listnet"
    assert first.startswith(f"| 1 | aaaaaaaa | {searched} | 0, 42 | 75.00 ±7.07 | [aaaaaaaa](")
    assert second.startswith("| 2 | bbbbbbbb | tau2=0.05 | 42 | 60.00 | [bbbbbbbb](")

    found = lab.find()
    (link,) = found.links([f"{A}-0", "unknown"]).values()
    assert f"[aaaaaaaa]({link})" in said
    child = found.client.get_run(link.rpartition("/")[2].partition("?")[0])
    assert child.info.run_name == "rankcse aaaaaaaa seed 0 (#2)"
    assert list(lab.files) == ["report.html"]


@pytest.mark.slow
def test_a_sweep_without_a_complete_trial_has_a_description_only(lab: Lab) -> None:
    spec = SPEC.model_copy(update={"sweep": "second"}).model_dump(mode="json")
    lab.record(sweep_started("second", spec=spec))

    def note() -> str:
        run = lab.find("second")
        return str(run.tags["mlflow.note.content"])

    publish(lab, "second")
    assert "0 of " in note()
    found = lab.find("second")
    assert found.client.list_artifacts(found.id) == []
    # What a user wrote below stays.
    found.client.set_tag(found.id, "mlflow.note.content", note() + "\nbuy *milk*")
    publish(lab, "second")
    assert note().count(USER_LINE) == 1
    assert note().endswith(f"\n\n{USER_LINE}\nbuy *milk*")
    found.client.set_tag(found.id, "mlflow.note.content", "all my own")
    publish(lab, "second")
    assert note().startswith("Sweep **second**")
    assert note().endswith(f"\n\n{USER_LINE}\n\nall my own")


def test_a_complete_sweep_has_its_chapters_and_a_deleted_run_stays_deleted(lab: Lab) -> None:
    lab.record(SweepFinished(sweep="first", state="COMPLETE"))
    publish(lab)
    files = lab.files
    assert {"report.html", "figures/ranking.html", "figures/search.html"} <= {*files}
    assert "rankcse" in files["report.html"]

    unknown = publish(lab, "frist", code=1)
    assert "first" in unknown.output
    found = lab.find()
    found.client.delete_run(found.id)
    deleted = publish(lab, code=1)
    assert "first" in deleted.output
    assert lab.run is None


def test_a_store_that_is_away_is_one_line(lab: Lab) -> None:
    with socket.socket() as bound:  # nobody listens here
        bound.bind(("127.0.0.1", 0))
        away = f"http://someone:secret@127.0.0.1:{bound.getsockname()[1]}"
        ended = publish(lab, mlflow=away, code=1)
    [line] = ended.output.splitlines()
    assert "secret" not in line
