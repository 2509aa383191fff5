import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import invoke
from stored_trials import stored_scores

from cse_platform.cli.leaderboard import main
from cse_platform.imports.tables import parse_dictionary
from cse_platform.leaderboard.trials import dev_curves, read_trials
from cse_platform.stores.sql.store import open_store
from cse_platform.stores.sql.tables import SweepRecord

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
LOG_MAPPING = """\
sweep: lab-c
method: simcse
backbone: bert-base
seed: 42
hyperparameters: {learning_rate: 3e-5, pooler: {value: cls}}
step: STEP
dev: METRIC
"""
TRAINER = [
    {"epoch": 0.5, "loss": 1.2, "step": 100},
    {"epoch": 0.5, "eval_sts-dev_spearman_cosine": 0.81, "step": 100},
    {"epoch": 1.0, "eval_sts-dev_spearman_cosine": 0.83, "step": 200},
    {"epoch": 1.0, "eval_sts-dev_spearman_cosine": 0.99, "step": 200},
]


def told(tmp_path: Path, file: Path, mapping: str = MAPPING, *, code: int = 0) -> str:
    (tmp_path / "m.yaml").write_text(mapping)
    words = ["import", file, "--mapping", tmp_path / "m.yaml", "--runs", tmp_path / "runs"]
    return invoke(main, *words, code=code).output


def stored(tmp_path: Path) -> list[Any]:
    with (
        open_store(f"sqlite:///{tmp_path}/runs/leaderboard.db") as board,
        board.session() as session,
    ):
        return [
            (
                trial.seed,
                trial.state,
                trial.value and round(trial.value, 6),
                trial.hyperparameters,
                [
                    (point.step, point.value)
                    for point in dev_curves(session, [trial.key])[trial.key]
                ],
                {score.task: round(score.value, 6) for score in stored_scores(session, trial.key)},
            )
            for trial in read_trials(session, SweepRecord.name == "lab-c")
        ]


def imported(tmp_path: Path, name: str, content: str | bytes, mapping: str) -> list[Any]:
    """Seed, state, dev score and hyperparameters of each trial of a file."""
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    told(tmp_path, file, mapping)
    return [trial[:4] for trial in stored(tmp_path)]


def test_a_table_becomes_trials_once_and_later_scores_are_added(tmp_path) -> None:
    file = tmp_path / "export.csv"
    file.write_text(TABLE)
    assert told(tmp_path, file, MAPPING.split("scores:")[0]) == (
        "Runs: 3, 1 of them still running and left out\nTrials: 2 new, 0 already here\n"
    )
    assert [trial[-1] for trial in stored(tmp_path)] == [{}, {}]
    file.write_text(TABLE.replace('"warm-sun-3","running"', '"warm-sun-3","finished"'))
    assert told(tmp_path, file).endswith("Trials: 1 new, 2 already here\n")
    values = {"learning_rate": 3e-5}
    assert stored(tmp_path) == [
        (1, "COMPLETE", 0.785, values, [], {"sts12": 0.684}),
        (2, "FAIL", 0.4, values, [], {}),
        (3, "COMPLETE", 0.5, values, [], {}),
    ]
    before = stored(tmp_path)
    head, *rows = file.read_text().splitlines()  # a later export has one more column
    rows = [f"{row},{n}" for n, row in enumerate(rows)] + [
        '"x","crashed","ada","","","4","","","",9'
    ]
    file.write_text("\n".join([f'{head},"id"', *rows]))
    assert told(tmp_path, file) == (
        "Runs: 4, 0 of them still running and left out\nTrials: 1 new, 3 already here\n"
    )
    lacking = (4, "FAIL", None, {}, [], {})  # it crashed before it logged its learning rate
    assert stored(tmp_path) == [*before, lacking]
    before = stored(tmp_path)
    words = ["rebuild", "--only", "leaderboard", "--runs", f"{tmp_path}/runs"]
    invoke(main, *words)
    assert stored(tmp_path) == before
    file.write_text(TABLE.replace("78.5", "78.6"))
    text = told(tmp_path, file, code=1)
    assert "line 2 (warm-sun-1) and table run " in text and "are all complete" in text
    rows = TABLE.splitlines()[:2]
    rows.append(rows[1].replace("sun-1", "sun-9").replace("68.4", "75"))  # an equal dev score
    file.write_text("\n".join(rows))
    text = told(tmp_path, file, code=1)
    assert "line 2 (warm-sun-1) and line 3 (warm-sun-9) are all complete" in text


def test_what_is_wrong_is_told_of_all_rows_with_line_and_value(tmp_path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(
        'Name,State,seed,lr,eval_stsb,sts12,note\na,finished,1,3e-05,78.5,68,"two\nlines"\n'
        "b,finished,2.5,3e-05,78.5,,\nc,finished,3,high,78.5,,\nd,finished,4,3e-05,7850,,\n"
        "e,finished,5,3e-05,good,,\nf,idle,6,3e-05,70,,\ng,finished,7,3e-05,70,,\n"
    )
    text = told(tmp_path, file, code=1)
    assert [line.partition(";")[0].strip() for line in text.splitlines()[1:]] == [
        "line 4 (b): its seed must be a whole number from 0, got '2.5'",
        "line 5 (c): learning_rate: expected a number, got 'high'",
        "line 6: eval_stsb is 78.5, not between -1 and 1",
        "line 7: eval_stsb is 'good', not a number",
        "line 8 (f): its state is 'idle', which is not known",
    ]
    assert not (tmp_path / "runs").exists()
    mapping = MAPPING.replace("dev:", "state: {param: State, names: {idle: done}}\ndev:")
    assert "line 8" not in told(tmp_path, file, mapping, code=1)
    text = told(tmp_path, file, MAPPING.replace("lr}", "lrr}"), code=1)
    assert "line 5, hyperparameters.learning_rate: no run has a column 'lrr'" in text
    file.write_text("a,b,c\n1,2,3\n1,2\n1,2,3,4\n")
    text = told(tmp_path, file, code=1)
    assert "line 3: 2 cells, and there are 3 columns" in text and "line 4: 4 cells" in text


def test_dictionaries_of_any_depth_are_columns(tmp_path) -> None:
    summary = "{'eval': {'stsb': 78.5, 'loss': nan}, '_wandb': {'runtime': 61}}"
    config = (
        "{'optim': {'lr': {'desc': None, 'value': 3e-05}}, 'seed': {'desc': None, 'value': 7}, "
        "'type': <class 'dict'>, 'dtype': torch.float16, 'p': PosixPath('/x'), 'w': -inf}"
    )
    table = pd.DataFrame([{"summary": summary, "config": config, "name": "sun-1"}]).to_csv()
    mapping = MAPPING.replace("param: seed", "param: config.seed").split("scores:")[0]
    mapping = mapping.replace(": lr}", ": config.optim.lr}").replace(
        "eval_stsb", "summary.eval.stsb"
    )
    seen = [(7, "COMPLETE", 0.785, {"learning_rate": 3e-5})]
    assert imported(tmp_path, "api.csv", table, mapping) == seen
    nested = json.dumps([{"summary": {"eval": {"stsb": 78.5}}, "config": config}])
    assert imported(tmp_path, "api.json", nested, mapping.replace("lab-c", "lab-d")) == seen


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': np.float64(0.5), 'b': np.True_}", {"a": 0.5, "b": True}),
        ("{'a': tensor(0.5, device='cuda:0'), 'b': array([1, 2])}", {"a": 0.5, "b": [1, 2]}),
        ("{'a': tensor(0.5, grad_fn=<MeanBackward0>)}", {"a": 0.5}),
        ('{"a": NaN, "b": -Infinity}', {"a": float("nan"), "b": float("-inf")}),
        ("{'a': OrderedDict([('b', 1)]), 'c': Namespace(d=2)}", {"a": {"b": 1}, "c": {"d": 2}}),
        ("{'a': defaultdict(<class 'list'>, {'b': (1, 2)})}", {"a": {"b": [1, 2]}}),
        ("{'a': {'b': {1, 2}}, 'c': <E.X: 'x'>}", {"a": {"b": [1, 2]}, "c": "<E.X: 'x'>"}),
        ("{1, 2}", None),
        ("{broken", None),
    ],
)
def test_a_dictionary_is_read_as_python_prints_it(text, value) -> None:
    assert repr(parse_dictionary(text)) == repr(value)


def test_states_of_other_trackers(tmp_path) -> None:
    states = {
        "finished": "COMPLETE", "COMPLETED": "COMPLETE", "preempted": "FAIL", "Crashed": "FAIL",
        "preempting": None, "killed": "FAIL", "TERMINATED": "COMPLETE", "PRUNED": "PRUNED",
        "pending": None, "CANCELLED by 1000": "FAIL",
    }  # fmt: skip
    rows = [f"{state},{n},3e-5,{70 + n}\n" for n, state in enumerate(states)]
    table = "status,seed,lr,eval_stsb\n" + "".join(rows)
    mapping = MAPPING.split("scores:")[0]
    seen = imported(tmp_path, "runs.csv", table, mapping)
    kept = [(n, state) for n, state in enumerate(states.values()) if state]
    assert [(seed, state) for seed, state, *_ in seen] == kept


def test_of_the_runs_of_one_trial_the_complete_one_is_imported(tmp_path) -> None:
    """Whichever stands first, as where a run that crashed was started again."""
    rows = ["crashed,1,3e-5,40", "finished,1,3e-5,78.5", "finished,2,3e-5,70", "crashed,2,3e-5,50"]
    table = "\n".join(["status,seed,lr,eval_stsb", *rows])
    (tmp_path / "runs.csv").write_text(table)
    text = told(tmp_path, tmp_path / "runs.csv", MAPPING.split("scores:")[0])
    assert "2 new, 0 already here, 2 earlier attempts left out" in text
    seen = [trial[:3] for trial in stored(tmp_path)]
    assert seen == [(1, "COMPLETE", 0.785), (2, "COMPLETE", 0.7)]


def test_a_time_in_milliseconds_is_when_a_run_began(tmp_path) -> None:
    """As pandas writes times to JSON."""
    row = {"seed": 1, "lr": 3e-5, "eval_stsb": 78.5, "Created": 1_700_000_000_000}
    imported(tmp_path, "runs.json", json.dumps([row]), MAPPING.split("scores:")[0])
    journal = (tmp_path / "runs" / "imports" / "lab-c.jsonl").read_text()
    assert '"2023-11-14T22:13:20' in journal
    shown = invoke(main, "show", "lab-c#0", "--runs", tmp_path / "runs").output
    assert "2023-11-14 22:13" in shown and "GPU-hours" not in shown and "\nseconds" not in shown


def test_gaps_infinite_scores_encodings_and_separators(tmp_path) -> None:
    """Whole numbers of columns with gaps have a point; an infinite dev score fails its run."""
    mapping = MAPPING.split("scores:")[0].replace(": lr}", ": lr, batch_size: bs}")
    rows = [("Käthe", 42.0, 64.0, 3e-5, 78.5), ("b", 43.0, 64.0, 3e-5, float("inf"))]
    rows += [("x" * 200_000, 44.0, 64.0, 3e-5, float("nan"))]
    frame = pd.DataFrame(rows, columns=["Name", "seed", "bs", "lr", "eval_stsb"])
    values = {"learning_rate": 3e-5, "batch_size": 64}
    expected = [(42, "COMPLETE", 0.785), (43, "FAIL", None), (44, "FAIL", None)]
    contents = {
        "a.csv": frame.to_csv(index=False).encode(),
        "b.csv": frame.to_csv(sep=";", decimal=",").encode("cp1252"),
        "c.tsv": frame.to_csv(sep="\t", decimal=",").encode("utf-16"),
        "d.csv": frame.to_csv(sep=",", decimal=",", lineterminator="\r").encode("utf-8-sig"),
        "e.json": frame.to_json().encode(),
        "f.json": frame.to_json(orient="records").encode(),
        "g.jsonl": frame.to_json(orient="records", lines=True).encode(),
        "h.parquet": frame.to_parquet(),
        "i.csv": b"sep=;\n" + frame.to_csv(sep=";", decimal=",").encode(),
        "j.json": frame.to_json(orient="split").encode(),
        "k.json": frame.to_json(orient="index").encode(),
        "l.json": frame.to_json(orient="table").encode(),
    }
    for name, content in contents.items():
        (tmp_path / name[0]).mkdir()
        seen = imported(tmp_path / name[0], name, content, mapping)
        if ".json" in name:  # which has no infinity
            assert [trial[0] for trial in seen] == [42, 43, 44], name
        else:
            assert [trial[:3] for trial in seen] == expected, name
        assert all(trial[3] == values for trial in seen), name
    table = "seed;bs;lr;eval_stsb\n1,000;64;3e-5;78,5\n"
    (tmp_path / "thousand.csv").write_text(table)
    assert "whole number from 0, got '1,000'" in told(
        tmp_path, tmp_path / "thousand.csv", mapping, code=1
    )


BARE = "sweep: lab-c\nmethod: sncse\nbackbone: bert-base\nseed: {param: seed}\ndev: dev\n"
STEPPED = f"{BARE}step: step\n"
UNLIKE = {
    "scores with three decimals are no thousands": (
        "seed;dev\n1;0,812\n2;1,000\n3;0,000\n", BARE,
        [(1, "COMPLETE", 0.812, {}), (2, "COMPLETE", 1.0, {}), (3, "COMPLETE", 0.0, {})],
    ),
    "the scores of a run that failed do not count": (
        "seed,dev,sts12,state\n1,0.5,-999,crashed\n", f"{BARE}scores: {{sts12: sts12}}\n",
        [(1, "FAIL", 0.5, {})],
    ),
    "a decimal comma": (
        "seed;dev;lr\n1;0,5;3,5e-5\n", f"{BARE}hyperparameters: {{learning_rate: lr}}\n",
        [(1, "COMPLETE", 0.5, {"learning_rate": 3.5e-5})],
    ),
    "the seed's column may stand alone, as a hyperparameter's": (
        "seed,dev\n7,0.5\n", BARE.replace("{param: seed}", "seed"), [(7, "COMPLETE", 0.5, {})],
    ),
    "the name of a column has commas": (
        "seed;dev;a,b,c,d\n1;0.5;x\n", BARE, [(1, "COMPLETE", 0.5, {})],
    ),
    "names of checkpoints number the rows": (
        "name,seed,dev,step\nckpt-5,1,0.5,5\nckpt-9,1,0.6,9\n", STEPPED,
        [(1, "COMPLETE", 0.6, {})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNLIKE)
def test_a_text_means_what_its_place_needs(tmp_path, case) -> None:
    table, mapping, trials = UNLIKE[case]
    assert imported(tmp_path, "runs.csv", table, mapping) == trials


REFUSED = {
    ("runs.csv", "run,seed,dev,step\n1,1,0.5,9\n2,1,0.6,9\n", STEPPED): "are all complete",
    ("runs.json", "[1, 2]", BARE): "has no rows",
    ("runs.json", '{"columns": ["seed"], "data": [1, 2]}', BARE): "no run has a column 'seed'",
    ("runs.csv", "seed,dev\n1,0.5\n", BARE.replace("bert-base", "")): (
        "line 3, backbone: expected text, got null"
    ),
    ("runs.csv", "seed,dev\n1,0.5\n", BARE.replace("bert-base", "''")): "text that is not empty",
    ("train.log", "start\n{'dev': 0.5, 'seed': 1}\n", BARE): "expected names of columns; keep the ",
    ("runs.csv", "seed,dev\n,0.5\n1,0.6\n", BARE): "line 2: it has no seed\n",
    (
        "runs.csv",
        "seed,dev,lr\n1,0.5,\n2,0.5,1\n",
        f"{BARE}hyperparameters: {{learning_rate: lr}}\n",
    ): (
        "line 2: it has no lr (learning_rate); if it is the same in all runs, "
        "write learning_rate: {value: …}"
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_apart_or_read_is_refused(tmp_path, case) -> None:
    name, table, mapping = case
    (tmp_path / name).write_text(table)
    text = told(tmp_path, tmp_path / name, mapping, code=1)
    assert REFUSED[case] in text, text


def test_an_excel_table(tmp_path) -> None:
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"seed": [1, None], "lr": [3e-5, 3e-5], "eval_stsb": [78.5, 70]})
    frame.to_excel(tmp_path / "runs.xlsx")
    text = told(tmp_path, tmp_path / "runs.xlsx", MAPPING.split("scores:")[0], code=1)
    assert "row 3: it has no seed" in text
    frame["seed"] = [1, 2]
    frame.to_excel(tmp_path / "runs.xlsx")
    told(tmp_path, tmp_path / "runs.xlsx", MAPPING.split("scores:")[0])
    assert [trial[:3] for trial in stored(tmp_path)] == [
        (1, "COMPLETE", 0.785),
        (2, "COMPLETE", 0.7),
    ]


@pytest.mark.parametrize(
    ("name", "content", "step", "metric", "curve"),
    [
        (
            "trainer_state.json",
            json.dumps({"log_history": TRAINER, "max_steps": 200}),
            "step",
            "eval_sts-dev_spearman_cosine",
            [(100, 0.81), (200, 0.83)],
        ),
        (
            "st.log",
            "{'loss': 0.5, 'grad_norm': nan, 'epoch': 0.28}\n"
            "{'eval_spearman': 0.773, 'epoch': 0.28}\n{'eval_spearman': '0.835', 'epoch': 0.56}\n",
            "{param: epoch, times: 360}",
            "eval_spearman",
            [(101, 0.773), (202, 0.835)],
        ),
    ],
)
def test_rows_with_steps_are_a_curve(tmp_path, name, content, step, metric, curve) -> None:
    mapping = LOG_MAPPING.replace("STEP", step).replace("METRIC", metric)
    values = {"learning_rate": 3e-5, "pooler": "cls"}
    best = max(value for _, value in curve)
    assert imported(tmp_path, name, content, mapping) == [(42, "COMPLETE", best, values)]
    assert stored(tmp_path)[0][4] == curve


def test_the_rows_of_several_runs_and_steps_that_are_none(tmp_path) -> None:
    file = tmp_path / "history.csv"
    file.write_text("run,seed,step,dev\na,1,0,0.9\na,1,5,0.5\nb,2,5,0.6\na,1,10,0.7\nb,2,10,0.6\n")
    mapping = LOG_MAPPING.replace("STEP", "step").replace("METRIC", "dev")
    mapping = mapping.replace("seed: 42", "seed: {param: seed}")
    told(tmp_path, file, mapping)
    assert [(t[0], t[2], t[4]) for t in stored(tmp_path)] == [
        (1, 0.7, [(0, 0.9), (5, 0.5), (10, 0.7)]),
        (2, 0.6, [(5, 0.6), (10, 0.6)]),
    ]
    before = stored(tmp_path)
    lines = file.read_text().splitlines()
    file.write_text(
        "\n".join(["id," + lines[0], *(f"{n},{row}" for n, row in enumerate(lines[1:]))])
    )
    assert "0 new, 2 already here" in told(tmp_path, file, mapping)  # the column numbers the rows
    assert stored(tmp_path) == before
    file.write_text("name,id,seed,step,dev\na,1,1,5,0.8\na,2,1,9,0.9\nb,3,1,5,0.7\nb,4,1,9,0.6\n")
    assert "line 2 (a) and line 4 (b) are all complete" in told(tmp_path, file, mapping, code=1)
    file.write_text("name,seed,step,dev\na,1,5,0.8\nb,1,5,0.7\n")
    assert "line 2 (a) and line 3 (b) are all complete" in told(tmp_path, file, mapping, code=1)
    file.write_text("seed,step,dev\n1,-1,0.9\n1,0.5,0.8\n1,,0.8\n")
    text = told(tmp_path, file, mapping, code=1)
    assert [line.partition(",")[0].strip() for line in text.splitlines()[1:]] == [
        "line 2: step is '-1'", "line 3: step is '0.5'", "line 4: step is ''",
    ]  # fmt: skip
    file.write_text("Training\n{'dev': 0.5}\n{'dev': 0.5\n")
    assert "is not a table" in told(tmp_path, file, mapping, code=1)
    file.write_text("{'dev': 0.5, 'step': 1}\n 20%|██  | 50/250\n")
    text = told(tmp_path, file, mapping, code=1)
    assert "line 2: no dictionary: " in text and "grep -o" in text


def test_results_of_mteb_are_test_scores(tmp_path) -> None:
    folder = tmp_path / "rev"
    folder.mkdir()
    for task, split, value in (("STS12", "test", 0.7), ("STSBenchmark", "validation", 0.8)):
        scores = {split: [{"main_score": value, "hf_subset": "default"}]}
        (folder / f"{task}.json").write_text(json.dumps({"task_name": task, "scores": scores}))
    (folder / "model_meta.json").write_text('{"name": "lab/encoder"}')
    old = {"mteb_dataset_name": "STS13", "test": {"cos_sim": {"spearman": 0.75}}}
    (folder / "STS13.json").write_text(json.dumps(old))
    mapping = (
        "sweep: lab-c\nmethod: simcse\nbackbone: bert-base\nseed: 0\n"
        "dev: STSBenchmark.validation.main_score\n"
        "scores: {sts12: STS12.test.main_score, sts13: STS13.test.cos_sim.spearman}\n"
    )
    told(tmp_path, folder, mapping)
    assert stored(tmp_path) == [(0, "COMPLETE", 0.8, {}, [], {"sts12": 0.7, "sts13": 0.75})]
    for content in (b'{"task_name"', b"[1, 2]", b'{"other": 1}', b"\xff"):
        (folder / "AAA.json").write_bytes(content)
        output = told(tmp_path, folder, mapping, code=1)
        assert "AAA.json: no result of MTEB" in output


STEPS = """\
sweep: lab-c
method: simcse
backbone: {param: model}
seed: 1
dev: dev
step: step
"""


def test_what_no_store_takes_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    problems = {
        "model,step,dev\na,100,0.7\na,1e20,0.8\n": "line 3: step is '1e20', not a step from 0",
        'model,step,dev\na,"1,000",0.7\n': "line 2: step is '1,000', not a step from 0",
        "": "it is empty",
    }
    for text, problem in problems.items():
        file = tmp_path / "runs.csv"
        file.write_text(text)
        output = told(tmp_path, file, STEPS, code=1)
        assert problem in output, output
    assert not (tmp_path / "runs" / "imports").exists()
    times = "model,step,dev,Created,Runtime\nå/b,1,0.7,0001-01-01T00:00:00+14:00,5\n"
    times += f"a-b,1,0.7,9999-12-31T23:00:00,7200\n{'x' * 300},1,0.7,,\na/b,1,0.7,,\n"
    file.write_text(times, encoding="utf-8")
    told(tmp_path, file, STEPS)
    made = [path.name for path in (tmp_path / "runs" / "imports").glob("lab-c-*.jsonl")]
    assert len(made) == 4  # unlike names stay so


def test_named_indexes_and_decimals_of_parquet_are_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame({"seed": [1], "lr": [3e-5], "eval_stsb": [Decimal("78.5")]})
    frame.set_index(["seed", "lr"]).to_parquet(tmp_path / "runs.parquet")
    mapping = MAPPING.replace("scores: {sts12: {metric: sts12, scale: 100}}\n", "")
    told(tmp_path, tmp_path / "runs.parquet", mapping)
    assert [trial[:3] for trial in stored(tmp_path)] == [(1, "COMPLETE", 0.785)]
