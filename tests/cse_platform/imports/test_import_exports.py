"""Runs from files of other trackers: a table as W&B exports it, and a database of Trackio."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from stored_trials import stored_scores, trials_of

from cse_platform.cli.leaderboard import main
from cse_platform.leaderboard.trials import dev_curve
from cse_platform.stores.sql.store import open_store

MAPPING = """\
sweep: lab-c
method: simcse
backbone: bert-base
seed: {param: seed}
hyperparameters: {learning_rate: lr}
dev: {metric: eval_stsb, scale: 100}
scores: {sts12: {metric: sts12, scale: 100}}
"""
TABLE = """\
"Name","State","User","Created","Runtime","seed","lr","eval_stsb","sts12"
"warm-sun-1","finished","ada","2026-01-05T10:00:00.000Z","60","1","3e-05","78.5","68.4"
"warm-sun-2","crashed","ada","2026-01-05T11:00:00.000Z","60","2","3e-05","40",""
"warm-sun-3","running","ada","2026-01-05T12:00:00.000Z","60","3","3e-05","50",""
"""


def told(tmp_path: Path, command: str, file: Path, mapping: str = MAPPING) -> tuple[int, str]:
    (tmp_path / "m.yaml").write_text(mapping)
    words = [command, file, "--mapping", tmp_path / "m.yaml", "--runs", tmp_path / "runs"]
    result = CliRunner().invoke(main, list(map(str, words)))
    return result.exit_code, result.output


def stored(tmp_path: Path) -> list[Any]:
    with (
        open_store(f"sqlite:///{tmp_path}/runs/leaderboard.db") as board,
        board.session() as session,
    ):
        return [
            (
                trial.seed,
                trial.state,
                trial.best_value,
                trial.wall_seconds,
                [(point.step, point.value) for point in dev_curve(session, trial.key)],
                {score.task: round(score.value, 6) for score in stored_scores(session, trial.key)},
            )
            for trial in trials_of(session, "lab-c")
        ]


def test_a_table_becomes_trials_once(tmp_path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(TABLE)
    assert told(tmp_path, "import-csv", file) == (
        0,
        "Runs: 3, 1 of them not ended and left out\nTrials: 2 new, 0 here already\n",
    )
    assert stored(tmp_path) == [
        (1, "COMPLETE", 0.785, 60.0, [], {"sts12": 0.684}),
        (2, "FAIL", 0.4, 60.0, [], {}),
    ]
    longer = TABLE.replace('"warm-sun-3","running"', '"warm-sun-3","finished"')
    file.write_text(longer)
    assert told(tmp_path, "import-csv", file)[1].endswith("Trials: 1 new, 2 here already\n")


def test_a_column_that_is_not_there_is_named_with_its_line(tmp_path) -> None:
    (tmp_path / "export.csv").write_text(TABLE)
    mapping = MAPPING.replace("lr}", "lrr}")
    code, text = told(tmp_path, "import-csv", tmp_path / "export.csv", mapping)
    assert code == 1 and "line 5, hyperparameters.learning_rate: no run has a param 'lrr'" in text


def test_a_trackio_project_has_its_curves(tmp_path) -> None:
    with closing(sqlite3.connect(tmp_path / "p.db")) as made, made:
        made.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, "
                     "timestamp TEXT, run_name TEXT, step INTEGER, metrics TEXT)")  # fmt: skip
        made.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, "
                     "run_name TEXT, config TEXT, created_at TEXT)")  # fmt: skip
        config = json.dumps({"lr": 3e-5, "seed": 7, "_Username": "ada"})
        made.execute("INSERT INTO configs VALUES (NULL, 'r1', 'sun', ?, '')", (config,))
        for second, (step, value) in enumerate({0: 30.0, 125: 78.5, 250: 77.0}.items()):
            time = f"2026-01-05T10:00:{second:02d}+00:00"
            row = (time, step, json.dumps({"eval_stsb": value, "loss": "NaN"}))
            made.execute("INSERT INTO metrics VALUES (NULL, 'r1', ?, 'sun', ?, ?)", row)
    mapping = MAPPING.split("scores:")[0]
    code, text = told(tmp_path, "import-trackio", tmp_path / "p.db", mapping)
    assert (code, text.splitlines()[-1]) == (0, "Trials: 1 new, 0 here already")
    curve = [(0, 0.3), (125, 0.785), (250, 0.77)]
    assert stored(tmp_path) == [(7, "COMPLETE", 0.785, 2.0, curve, {})]
    again = told(tmp_path, "import-trackio", tmp_path / "p.db", mapping)[1]
    assert again.endswith("Trials: 0 new, 1 here already\n")
