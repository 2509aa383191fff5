"""The layout of results from elsewhere: what is read, what is refused, and the cases of others."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import invoke
from failing import failing

from cse_methods.errors import CseError
from cse_platform.cli.leaderboard import main
from cse_platform.errors import ImportRefusedError
from cse_platform.imports.runs import import_runs
from cse_platform.leaderboard import open_leaderboard

ENCODER = {"method": "simcse", "backbone": "bert-base"}
WHOLE = {"run": "a", **ENCODER, "seed": 1, "state": "complete", "dev.stsb": 0.5}
T9, T10 = "2026-01-05T09:00:00Z", "2026-01-05T11:00:00+01:00"


def bring(table: Any, runs: Path, sweep: str = "x") -> Any:
    frame = table if isinstance(table, str | Path | pd.DataFrame) else pd.DataFrame(table)
    return import_runs(frame, sweep=sweep, runs=runs)


def test_all_that_is_wrong_is_told_at_once_by_row_and_column(tmp_path, monkeypatch) -> None:
    rows = [
        WHOLE | {"seed": "x", "dev.stsb": 78.5, "started": T9[:-1]},
        WHOLE | {"run": "b", "step": -1, "train.loss": np.inf, "param.learning_rate": "high"},
        WHOLE | {"run": "c", "step": 5, "param.temprature": 1},
        WHOLE | {"run": "c", "step": 5, "seed": 2},
        WHOLE | {"run": "c"},
        WHOLE | {"run": "d", "state": "finished", "started": 1709640000},
        {"run": "e", "started": T10, "finished": T9, "seed": "4_5"},
        WHOLE | {"run": None},
        WHOLE | {"run": "f", "seed": 7},
        WHOLE | {"run": "g", "seed": 7.0},
        WHOLE | {"run": "h", "step": 0, "method": True},
        {"run": "i", "seed": 2**32, "step": 10, "dev.sickr": "0,7"},
        WHOLE | {"run": "j", "state": "pruned", "finished": "2026-01-05 JST"} | TESTED,
        WHOLE | {"run": "k", "seed": 8, "test.avg_sts": 0.501} | {f"test.{t}": 0.5 for t in STS},
        WHOLE | {"run": "l", "finished": "1970-01-20T10:54:00Z"},
        {"run": "m", "state": "running", "dev.stsb": 99, "seed": "?"},
    ]  # fmt: skip
    monkeypatch.setattr("cse_platform.imports.runs._MOST_PROBLEMS", 100)
    with pytest.raises(ImportRefusedError, match="nothing is imported:\n") as refused:
        bring(pd.DataFrame(rows).assign(lr=3e-5), tmp_path / "runs")
    told = [line.strip() for line in str(refused.value).splitlines()[1:]]
    for start, end in (
        ("no column 'lr' is known; ", "param.NAME and train.NAME"),
        ("row 8, run: it is missing", ""),
        ("row 1 (a), seed: expected a whole number from 0, got 'x'", ""),
        ("row 1 (a), dev.stsb: expected a score from -1 to 1, got 78.5", "percentages by 100"),
        ("row 1 (a), started: 2026-01-05 09:00:00 has no time zone", "('Europe/Berlin')"),
        ("row 2 (b), step: expected a whole number from 0, got -1", "the steps in one"),
        ("row 2 (b), train.loss: expected a finite number, got Infinity", ""),
        ("row 2 (b), param.learning_rate: expected a number, got 'high'", ""),
        ("row 3 (c), param.temprature: ", "did you mean 'temperature'?"),
        ("row 4 (c), seed: row 3 (c), of the same run, has another value", ""),
        ("row 4 (c), step: row 3 (c) has this step, too; ", ""),
        ("row 5 (c), step: it is missing; other rows of the run have one", ""),
        ("row 6 (d), state: expected one of complete, failed, pruned, running, got 'fin", ""),
        ("row 6 (d), started: expected a time such as ", "or unit='s'"),
        ("row 7 (e), seed: expected a whole number from 0, got '4_5'", ""),
        ("row 7 (e), method: it is missing; a run needs it unless", "failed (and 1 more row)"),
        ("row 7 (e), backbone: it is missing", ""),
        ("row 7 (e), state: it is missing", ""),
        ("row 7 (e), finished: 2026-01-05 09:00:00+00:00 is before the start, ", ""),
        ("row 9 (f) and row 10 (g) are complete, with equal seeds and hyper", ""),
        ("row 11 (h), method: expected text, got true", ""),
        ("row 11 (h), dev.stsb: there is no dev score of a trained step", ""),
        ("row 12 (i), seed: expected a whole number from 0, got 4294967296", ""),
        ("row 12 (i), dev.sickr: expected a score from -1 to 1, got '0,7'; write 0.7, ", "point"),
        (
            "row 12 (i), dev.stsb: a dev point lacks this score; ",
            "frame.dropna(subset=['dev.stsb'])",
        ),
        ("row 13 (j), test.sickr, test.sts12: only complete runs have", "; leave them empty"),
        ("row 13 (j), finished: expected a time such as ", ""),
        ("row 14 (k), test.avg_sts: 0.501 is not the mean of its tasks, 0.5000", ""),
        ("row 15 (l), finished: 1970-01-20 10:54:00+00:00 is not of this century", ""),
    ):
        line = next((line for line in told if line.startswith(start)), "")
        assert line and line.endswith(end), start
        told.remove(line)
    assert not told
    assert not (tmp_path / "runs").exists()


TESTED = {"test.sts12": 0.5, "test.sickr": 0.5}
STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
REFUSED = {
    "no column 'test.sts11' is known; did you mean 'test.sts1": [WHOLE | {"test.sts11": 0.5}],
    "no column 'dev.sts12' is known": [WHOLE | {"dev.sts12": 0.5}],
    "no column 'dev.stsb_spearman' is known; did you mean 'dev.stsb'?": [
        WHOLE | {"dev.stsb_spearman": 0.5}
    ],
    "no column 'dev.SICK-R.spearman_cosine' is known; did you mean 'dev.sickr'?": [
        WHOLE | {"dev.SICK-R.spearman_cosine": 0.5}
    ],
    "no column 'dev.sts12_spearman' is known": [WHOLE | {"dev.sts12_spearman": 0.5}],
    "no column 'test.sts-b_spearman' is known; did you mean 'test.stsb'?": [
        WHOLE | {"test.sts-b_spearman": 0.5}
    ],
    "no column 'param.' is known": [WHOLE | {"param.": 0.5}],
    "no column 'State' is known; did you mean 'state'?": [WHOLE | {"State": "failed"}],
    "no column 'Unnamed: 0' is known; it is the index": [WHOLE | {"Unnamed: 0": 0}],
    "no column dev.NAME, which names": [{"run": "a", **ENCODER, "seed": 1, "state": "failed"}],
    "there are no rows with runs": [],
    "x19'\n  and 2 more": [WHOLE | {"run": n, "seed": f"x{n}"} for n in range(22)],
    "got Infinity\n": [WHOLE | {"dev.stsb": np.inf}, WHOLE | {"run": "b", "seed": "1,5"}],
    "got '1,5'\n": [WHOLE | {"seed": "1,5", "dev.stsb": np.inf}],
    "row 2 (a), run: row 1 (a) is of this run, too; keep one: frame.drop_duplicates('run')": [
        WHOLE, WHOLE],
    "row 2 (a), dev.stsb: a dev point lacks this score": [WHOLE, {"run": "a", "dev.sickr": 0.6}],
    "no column 'param.lr ' is known": [WHOLE | {"param.lr ": 0.5}],
    "expected a name without blanks around it, got ' simcse'": [WHOLE | {"method": " simcse"}],
    "backbone: expected a name without blanks around it, got": [WHOLE | {"backbone": "None"}],
    "row 1 (a), method: expected our name for it, got 'SimCSE'; did you mean 'simcse'?": [
        WHOLE | {"method": "SimCSE"}
    ],
    "backbone: expected our name for it, got 'bert-base-uncased'; did you mean 'bert-base'?": [
        WHOLE | {"backbone": "bert-base-uncased"}
    ],
    "expected our name for it, got 'FacebookAI/roberta-base'; did you mean 'roberta-base'?": [
        WHOLE | {"backbone": "FacebookAI/roberta-base"}
    ],
    "expected our name for it, got 'BERT-Base'; did you mean 'bert-base'? (and 1 more row)": [
        WHOLE | {"backbone": "BERT-Base", "run": run} for run in "ab"
    ],
    "run: expected a name without blanks around it, got 'NA'": [WHOLE | {"run": "NA"}],
    "a number such as 0.5, or text, got '0,05'": [WHOLE | {"method": "m", "param.x": "0,05"}],
    "x: expected a finite number, got -Infinity": [WHOLE | {"method": "m", "param.x": "-inf"}],
    "two columns have one name": pd.DataFrame([["a", "b"]], columns=["run", "run"]),
    "method: expected text, got 'a\\\\x00b'": [WHOLE | {"method": "a\0b"}],
    "state: expected one of complete, failed, pruned, running, got [": [WHOLE | {"state": ["a"]}],
    "param.y: expected text, got": [WHOLE | {"method": "other", "param.x": T9, "param.y": {1, 2}}],
}  # fmt: skip


def test_tables_and_sweeps_of_other_forms_are_refused(tmp_path) -> None:
    def refuse(message: str) -> None:
        with pytest.raises(ImportRefusedError) as refused:
            bring(REFUSED[message], tmp_path)
        assert message in str(refused.value)

    assert not failing(refuse, REFUSED)
    with pytest.raises(ImportRefusedError, match=r"sweep: expected .*, got '\.\./x'"):
        bring([WHOLE], tmp_path, "../x")
    with pytest.raises(ImportRefusedError, match=r"a frame of pandas or .* got dict"):
        import_runs(WHOLE, sweep="x", runs=tmp_path)  # type: ignore[arg-type]


def test_cells_mean_one_value_however_they_are_written(tmp_path, runs) -> None:
    """Runs of one configuration and seed are one trial, of which one is complete."""
    rates = [3e-5, 3.0000000000000004e-05, "3e-05", Decimal("0.00003")]
    sizes, seeds = [64, 64.0, "64", np.int64(64)], [42, 42.0, "42", "42.0"]
    rows = [
        WHOLE | {"run": n, "param.learning_rate": rate, "param.batch_size": size, "seed": seed}
        for n, (rate, size, seed) in enumerate(zip(rates, sizes, seeds, strict=True))
    ]
    rows = [row | {"state": "failed" if row["run"] else "complete"} for row in rows]
    for method in ("simcse", "theirs"):
        done = bring(pd.DataFrame(rows, dtype=object).assign(method=method), runs, method)
        assert (done.new, done.left_out) == (1, {"outdone by another attempt": 3})
    cells = {
        "big": [True, "True", "true"],
        "l": [[1, 0.5], (1.0, 0.5), "[1, 0.5]"],
        "n": ["007", 7],
        "p": [0.5, ".5", "+.5", "5.e-1"],
        "r": [0.123451, 0.123452],
    }
    rows = [
        WHOLE | {"method": "theirs", "run": f"{name}{n}", "state": "failed", f"param.{name}": cell}
        for name, written in cells.items()
        for n, cell in enumerate(written)
    ]
    assert bring(pd.DataFrame(rows, dtype=object), runs, "others").new == 7
    with open_leaderboard(runs) as board:
        rows = board.rows(per_configuration=True)
        values = {row.method: row.configuration.values for row in rows}
        assert values["simcse"] == values["theirs"] == {"learning_rate": 3e-5, "batch_size": 64}


def test_files_and_the_command(tmp_path, runs, stored) -> None:
    frame = pd.DataFrame([
        WHOLE | {"step": 5, "dev.gsts": 0.4, "train.loss": 2, "started": T9, "finished": T10},
        {"run": "a", "step": 10, "dev.stsb": 0.7, "test.sts12": 0.6},
        WHOLE | {"run": "b", "seed": 2, "state": "failed", "started": T9},  # it has no end
        {"run": "c", "state": "running"}, {"run": "d", "state": "failed", "seed": 3},
    ]).astype({"step": "Int64", "seed": "Int64"})  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "t.parquet")
    words = ["import", tmp_path / "t.csv", "--sweep", "csv", "--runs", runs]
    assert invoke(main, *words).output == (
        "Trials: 2 new, 0 already here\n"
        "Runs left out: 1 still running, 1 failed without method, backbone or seed\n"
    )
    assert "Trials: 0 new, 2 already here\n" in invoke(main, *words).output
    bring(str(tmp_path / "t.jsonl"), runs, "jsonl")
    bring(tmp_path / "t.parquet", runs, "parquet")
    seen = [(1, "COMPLETE", 0.7, [(5, 0.5), (10, 0.7)]), (2, "FAIL", 0.5, [])]
    assert all(stored(sweep) == seen for sweep in ("csv", "jsonl", "parquet"))
    journal = (runs / "imports" / "csv.jsonl").read_text()
    assert (
        '"wall_seconds":3600.0' in journal and '"dev/gsts_spearman":0.4,"train/loss":2.0' in journal
    )
    tie = [WHOLE | {"step": 5, "dev.stsb": 0.7}, {"run": "a", "step": 10, "dev.stsb": 0.7}]
    bring(pd.DataFrame(tie), runs, "tie")  # of equal best points, the earliest is the model's
    assert '"best_step":5' in (runs / "imports" / "tie.jsonl").read_text()
    shared, folder = f"sqlite:///{tmp_path}/lab.db", tmp_path / "ann"
    words = ["import", tmp_path / "t.csv", "--sweep", "csv", "--runs", folder]
    assert "2 new" in invoke(main, *words, env={"CSE_STORE": shared}).output
    told = invoke(main, "--json", "--runs", folder, env={"CSE_STORE": shared}).output
    assert [row["sweep"] for row in json.loads(told)] == ["csv"]
    assert not (folder / "leaderboard.db").exists()
    before = stored("csv")
    invoke(main, "rebuild", "--only", "leaderboard", "--runs", runs)
    assert stored("csv") == before
    (tmp_path / "t.csv").write_text("run,state,seed\na,complete,x\n")
    told = invoke(main, *words[:4], "--runs", tmp_path / "none", code=1).output
    assert f"{tmp_path}/t.csv, line 2 (a), seed: expected a whole" in told
    words[1] = (tmp_path / "t.csv").rename(tmp_path / "t.xlsx")
    told = invoke(main, *words[:4], "--runs", tmp_path / "none", code=1).output
    assert told.endswith("save it as .csv, .tsv, .jsonl, .parquet\n")
    assert not (tmp_path / "none").exists()


def of_case(folder: Path, file: str = "t.csv", **reading: Any) -> pd.DataFrame:
    """The table of a case with its columns renamed, as its reader would."""
    ours = {
        "Name": "run",
        "run_id": "run",
        "job_id": "run",
        "JobName": "run",
        "lr": "param.learning_rate",
    }
    ours |= {"stsb": "dev.stsb", "State": "state", "Created": "started"}
    table = pd.read_csv(folder / file, **reading).rename(columns=ours)
    table["run"] = table.get("run", table.index)
    return table.assign(**{name: value for name, value in ENCODER.items() if name not in table})


DONE = {
    "finished": "complete",
    "COMPLETED": "complete",
    "SUSPENDED": "running",
    "REQUEUED": "running",
}
DONE |= {"COMPLETING": "running", "crashed": "failed", "failed": "failed"}
DAYS: Any = {"sep": ";", "decimal": ",", "usecols": lambda name: name != "Runtime"}
CASES: dict[str, Any] = {
    "crashed-without-config": lambda d: of_case(d).assign(state=lambda t: t.state.map(DONE)),
    "day-first": lambda d: of_case(d, **DAYS).assign(
        state="complete",
        started=lambda t: pd.to_datetime(t.started, format="%d.%m.%Y %H:%M").dt.tz_localize("UTC"),
    ),
    "literal-is-a-column": lambda d: of_case(d).drop(columns="backbone").assign(
        state="complete").rename(columns={"model": "backbone"}),
    "resumed-run": lambda d: of_case(d).assign(state="complete").drop_duplicates(
        ["run", "step"], keep="last"),
    "slurm-states": lambda d: of_case(d).assign(state=lambda t: t.state.map(DONE).fillna("failed")),
    "state-one-value": lambda d: of_case(d).assign(state="complete").drop(
        columns=["name", "status"]),
    "two-runs-one-curve": lambda d: of_case(d, "job_id.csv").assign(
        state=lambda t: t.run.map({11: "failed", 12: "complete"})),
    "typed-names": lambda d: of_case(d).assign(
        state="complete", backbone=lambda t: t.big.map({True: "bert-large", False: "bert-base"})
    ).drop(columns="big"),
}  # fmt: skip
RIGHT = {
    "crashed-without-config": [(1, "COMPLETE", 0.75), (2, "FAIL", None)],
    "day-first": [(1, "COMPLETE", 0.75), (2, "COMPLETE", 0.76)],
    "literal-is-a-column-bert-large": [(2, "COMPLETE", 0.76)],
    "resumed-run": [(1, "COMPLETE", 0.73)],
    "slurm-states": [(1, "COMPLETE", 0.75), *((s, "FAIL", None) for s in (2, 3, 4, 5, 9, 10))],
    "state-one-value": [(1, "COMPLETE", 0.75)],
    "two-runs-one-curve": [(1, "COMPLETE", 0.8)],
    "typed-names-bert-large": [(1, "COMPLETE", 0.75)],
}
REFUSED_CASES: dict[str, tuple[Any, str]] = {
    "day-first": (lambda d: of_case(d, **DAYS), "'05.03.2024"),
    "log-line-before-json": (lambda d: d / "t.jsonl", "line 1: expected one JSON object"),
    "mixed-percent": (lambda d: of_case(d), "dev.stsb: expected a score from -1 to 1, got 75.1"),
    "resumed-run": (lambda d: of_case(d), "row 4 (r1), step: row 2 (r1) has this step, too"),
    "times": (lambda d: of_case(d, "formats.csv"), "row 5 (e), started: expected a time"),
    "two-runs-one-curve": (
        lambda d: of_case(d, "job_id.csv").assign(state="complete"), "are complete"),
}  # fmt: skip


def test_cases_of_others_give_their_right_value_or_are_refused_by_name(
    shared, runs, stored
) -> None:
    def read(case: str) -> None:
        bring(CASES[case](shared / "cases" / case), runs, case)
        for sweep in [name for name in RIGHT if name.startswith(case)]:
            assert [trial[:3] for trial in stored(sweep)] == RIGHT[sweep]

    def refuse(case: str) -> None:
        make, message = REFUSED_CASES[case]
        with pytest.raises(CseError) as refused:
            bring(make(shared / "cases" / case), runs)
        assert message in str(refused.value)

    assert not failing(read, CASES)
    assert not failing(refuse, REFUSED_CASES)
    days = (runs / "imports" / "day-first.jsonl").read_text().split('"time":"')
    assert {day[:10] for day in days[1:]} == {"2024-03-05", "2024-03-25"}
    assert '"wall_seconds":null' in days[3]
