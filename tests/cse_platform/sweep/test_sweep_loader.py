from pathlib import Path

import pytest

from cse_methods.registry import available_methods
from cse_platform.errors import SweepFileError
from cse_platform.sweep.conditions import Condition
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.space.dimensions import Range
from cse_platform.sweep.spec import SweepSpec

GOOD = """\
sweep: toy-mini
method: toy
backbone: mini
corpus: builtin
fixed: {epochs: 2}
space:
  temperature: {low: 1e-2, high: 0.1, log: true}
  rank_loss: [listnet, listmle]
  tau3: {choices: [0.1, 0.2], when: {rank_loss: listnet}}
  views: {low: 2, high: 4}
search: {trials: 4}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "toy.yaml"
    path.write_text(text)
    return path


def problems(folder: Path, text: str, *overrides: str) -> list[str]:
    path = write(folder, text)
    with pytest.raises(SweepFileError, match=r"toy\.yaml is not a sweep:\n") as caught:
        load_sweep(path, overrides=overrides)
    return str(caught.value).splitlines()[1:]


def loaded(folder: Path, text: str) -> SweepSpec:
    (spec,) = load_sweep(write(folder, text)).stages
    return spec


def places(told: list[str]) -> list[str]:
    """The line and the key of each problem, without what is wrong."""
    return [line.strip().split(": ")[0] for line in told]


def edited(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_secret_is_refused_but_in_stores(tmp_path: Path) -> None:
    secret = "s3://key:hunter2hunter2@bucket/runs"
    told = problems(
        tmp_path, GOOD + f"storage: {secret}\ndata: https://hunter2@hub/x?token=hunter2\n"
    )
    assert len(told) == 2 and "hunter2" not in "".join(told)
    assert "line 12, storage: it holds a password or a token" in "".join(told)
    store = "postgresql+psycopg://lab:hunter2@db/board"
    spec = loaded(tmp_path, GOOD + f"stores: {{leaderboard: '{store}'}}\n")
    assert spec.stores.leaderboard == store


def test_every_outcome_of_comparisons_is_checked(tmp_path: Path) -> None:
    """Between the two bounds both dimensions take part, which neither end of the range shows."""
    compared = GOOD.replace("{rank_loss: listnet}", "{rank_loss: listnet, temperature: '>= 0.03'}")
    compared = compared.replace("high: 4}", "high: 4, when: {temperature: < 0.05}}")
    points = loaded(tmp_path, compared).examples
    taking_part = {frozenset(point) - {"temperature", "rank_loss"} for point in points}
    assert taking_part == {frozenset(s) for s in (["views"], ["views", "tau3"], ["tau3"], [])}


def test_a_good_file_loads(tmp_path: Path) -> None:
    spec = loaded(tmp_path, GOOD)
    assert (spec.sweep, spec.method, spec.search.trials) == ("toy-mini", "toy", 4)
    assert spec.pruner.kind == "none" and spec.seeds.search == 42
    assert spec.space["tau3"].when == (Condition("rank_loss", "=", ("listnet",)),)
    assert spec.config({"temperature": 0.05, "rank_loss": "listmle", "tau3": 0.1}).epochs == 2
    text = edited("fixed: {epochs: 2}", "fixed: {}")
    text = text.replace("space:\n", "space:\n  epochs: {low: 1, high: 3}\n")
    space = loaded(tmp_path, text).space
    epochs, views = space["epochs"], space["views"]
    assert isinstance(epochs, Range) and not epochs.whole and epochs.low == 1.0
    assert isinstance(views, Range) and views.whole


def test_a_data_file_lies_beside_the_sweep_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in ("both.txt", "here/both.txt", "here/only_here.txt"):
        (tmp_path / place).touch()
    text = GOOD.replace("builtin", "[both.txt, only_here.txt, ./nowhere.csv, wiki1m]")
    found = [tmp_path / "both.txt", tmp_path / "here" / "only_here.txt", tmp_path / "nowhere.csv"]
    corpus = loaded(tmp_path, text).corpus
    assert [one.name for one in corpus] == [*map(str, found), "wiki1m"]


def test_a_variable_that_is_not_set_is_a_problem_among_the_others(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("NO_SUCH_FOLDER", raising=False)
    text = GOOD.replace("builtin", "${NO_SUCH_FOLDER}/x.txt").replace("trials: 4", "trials: none")
    unset = "${NO_SUCH_FOLDER}: the environment has no variable of that name"
    first, second, third = problems(
        tmp_path, text + 'dev: {checkpoint: "${NO_SUCH_FOLDER}/d.tsv", search: stsb}\n'
    )
    assert first == f"  line 4, corpus: {unset}"
    assert second.startswith("  line 11, search.trials: ")
    assert third == f"  line 12, dev: {unset}"


AIMS = [
    ("trails: 4", "trails: no such key; did you mean 'trials'?"),
    ("sampler: tpee", "sampler: expected 'tpe', 'gp', 'cmaes', 'qmc', 'random', 'grid' "
     "or 'auto', got 'tpee'; did you mean 'tpe'?"),
    ("sampler: {kind: tpe, startup: 3}",
     "sampler.startup: no such key; did you mean 'startup_trials'?"),
    ("start_from: [leaderbord]", "start_from.0: expected 'published', 'leaderboard' or a mapping "
     "name -> value, got 'leaderbord'; did you mean 'leaderboard'?"),
    ("learn_from: [toy-mini]", "learn_from: a sweep always continues with its own trials; leave"),
    ("learn_from: [a, b, a]", 'learn_from: expected distinct sweeps, got ["a", "b", "a"]'),
    ("sampler: random, learn_from: [a]",
     "learn_from: sampler 'random' cannot learn from other sweeps; use tpe, gp or auto"),
    ("method: bayes", "method: no such key; did you mean 'sampler'? it is one of tpe, gp, cmaes, "
     "qmc, random, grid, auto"),
]  # fmt: skip


OUT_OF_PLACE = {
    "dev: ./my-dev.tsv": "dev: expected a mapping, got './my-dev.tsv'; write dev: {checkpoint: "
    "./my-dev.tsv, search: ./my-dev.tsv}",
    "evaluate: sts": "evaluate: expected a mapping, got 'sts'; write evaluate: {top: 1, tasks: "
    "[sts]}",
    "seeds: {confirm: 5}": "seeds.confirm: expected a mapping, got 5; write confirm: {top: 5, "
    "seeds: [0, 1, 2]}",
    "resources: [1]": "resources: expected a mapping, got [1]; write resources: {gpu: 1, cpu: 4}",
    "gpus: 2": "gpus: no such key; write resources: {gpu: …}",
    "trials: 3": "trials: no such key; write search: {trials: …}",
    "bs: 64": "bs: no such key; write fixed: {batch_size: …}",
    "format: unquoted": "format: no such key; write corpus: {format: …}",
    "dev: {file: a.tsv}": "dev.file: no such key; write checkpoint: {file: …}",
    "dev: {scale: [0, 5]}": "dev.scale: no such key; write checkpoint: {file: …, scale: …}",
    "dev: {checkpoint: {file: a.tsv, separator: tab}}": "dev.checkpoint.separator: expected the "
    "characters themselves, got 'tab'; write \"\\t\"",
    'evaluate: {top: 1, tasks: "[sts, mr]"}': "evaluate.tasks: expected a list, got '[sts, mr]'; "
    "write [sts, mr], without quotes",
    'resources: "{gpu: 1}"': "resources: expected a mapping, got '{gpu: 1}'; write {gpu: 1}, "
    "without quotes",
    "resources: {timeout: 2 Hours}": "resources.timeout: expected a time such as 90s, 20min, 2h or "
    "1d, got '2 Hours'; write 2h",
    "resources: {silent_for: 20}": "resources.silent_for: expected a time such as 90s, 20min, 2h "
    "or 1d, got 20; write its unit: 20s, 20min or 20h",
}
OTHER_TOOLS = {
    "{type: loguniform, min: 0.01, max: 0.1}": "{low: 0.01, high: 0.1, log: true}",
    "{distribution: q_log_uniform_values, min: 0.01, max: 0.1, q: 0.01}": "{low: 0.01, high: 0.1, "
    "log: true}",
    "{distribution: uniform, min: 1, max: 2, when: {views: 2}}": "{low: 1.0, high: 2.0, when: "
    '{"views": 2}}',
    "{low: 0.01, high: 0.1, scale: log}": "{low: 0.01, high: 0.1, log: true}",
    "{type: float, range: [1, 2], step: 0.5}": "{low: 1.0, high: 2.0, step: 0.5}",
    "{type: categorical, values: [0.1, 0.2]}": "[0.1, 0.2]",
    "{grid_search: [0.1, 0.2]}": "[0.1, 0.2]",
    "{uniform: [0.1, 0.2]}": "{low: 0.1, high: 0.2}",
    '"tune.choice([0.1, 0.2])"': "[0.1, 0.2]",
    '"tune.randint(1, 5)"': "{low: 1, high: 4}",
    "\"trial.suggest_float('t2', 1e-2, .1, log=True)\"": "{low: 0.01, high: 0.1, log: true}",
    '"[0.1, 0.2]"': "[0.1, 0.2], without quotes",
    '{value: "0.1, 0.2"}': "[0.1, 0.2]",
}


def test_a_dimension_of_another_tool_gets_the_form_to_write(tmp_path: Path) -> None:
    for dimension, form in OTHER_TOOLS.items():
        text = edited("{low: 1e-2, high: 0.1, log: true}", dimension)
        (line,) = problems(tmp_path, text)
        assert line.startswith("  line 7, space.temperature: expected a list of choices"), dimension
        assert line.endswith(f"; write {form}"), dimension


def test_what_is_out_of_place_or_no_mapping_gets_the_form_to_write(tmp_path: Path) -> None:
    for line, problem in OUT_OF_PLACE.items():
        assert problems(tmp_path, f"{GOOD}{line}\n") == [f"  line 12, {problem}"]


def test_each_wrong_aim_of_a_search_in_its_words_and_other_tools_in_ours(tmp_path: Path) -> None:
    for aims, start in AIMS:
        (line,) = problems(tmp_path, edited("{trials: 4}", f"{{trials: 4, {aims}}}"))
        assert line.startswith(f"  line 11, search.{start}"), aims
    answers = {
        "bayes": "did you mean 'tpe'?",
        "grid_search": "did you mean 'grid'?",
        "hyperband": "it stops trials: 'pruner: hyperband'",
        "asha": "it stops trials: 'pruner: successive_halving'",
    }
    for word, answer in answers.items():
        (line,) = problems(tmp_path, edited("{trials: 4}", f"{{trials: 4, sampler: {word}}}"))
        assert line.endswith(f"got {word!r}; {answer}")


SEARCH = "search: {trials: 4}"
ONE_PROBLEM = [
    (SEARCH, "search: {}", "line 11, search: sampler 'tpe' needs 'trials', how many to try, or "
     "'budget'"),
    (SEARCH, "search: {trials: 0}", "line 11, search.trials: expected at least 1, got 0"),
    (SEARCH, "search:\n  sampler: grid",
     "line 7, space.temperature: a grid needs choices, whole numbers or a step"),
    ("trials: 4", "trials: 4, learn_from: a",
     "line 11, search.learn_from: expected a list, got 'a'; write [a]"),
    ("{low: 1e-2, high: 0.1, log: true}", "{min: 1, max: 2}",
     "line 7, space.temperature: expected a list of choices, {choices: [...]} or {low: ..., "
     "high: ...}, got {\"min\": 1, \"max\": 2}; write {low: 1, high: 2}"),
    (f"{SEARCH}\n", "", "line 1: the key 'search' is missing"),
    ("method: toy", "metod: toy", "line 2, metod: no such key; did you mean 'method'?"),
    ("method: toy", "method: simsce", "line 2, method: no method 'simsce'. Did you mean 'simcse'? "
     f"Known: {', '.join(available_methods())}; or one of your own, once its package is "
     "installed"),
    ("sweep: toy-mini", "sweep: a/b", "line 1, sweep: expected at most 100 letters, digits, '-', "
     "'_' and '.', the first a letter or digit, got 'a/b'"),
    ("corpus: builtin", "corpus: {name: a, lines: 3}", "line 4, corpus.lines: no such key; known: "
     "column, columns, drop_empty, first, format, label, loss, name, prompt, separator, split_at, "
     "transductive, weight, where"),
    ("[listnet, listmle]", "\n  - listnet\n  - listmel", "line 10, space.rank_loss.1: expected "
     "'listnet' or 'listmle', got 'listmel'; did you mean 'listmle'?"),
    ("{low: 2, high: 4}", "{low: 2, high: 9}",
     "line 10, space.views.high: expected at most 8, got 9"),
    ("{low: 2, high: 4}", "{low: 2, high: 4.5}",
     "line 10, space.views: a whole number; write low, high and step as such, got 2 to 4.5"),
    ("views:", "lr:",
     "line 10, space.lr: method 'toy' has no setting 'lr'; did you mean 'learning_rate'?"),
    ("{epochs: 2}", "{views: 2}",
     "line 10, space.views: 'views' is also in 'fixed'; keep one of the two"),
    ("{epochs: 2}", "{backbone: mini}", "line 5, fixed.backbone: 'backbone' is the same for every "
     "trial; move it to the top of the sweep"),
    ("{epochs: 2}", '{epochs: "2"}', "line 5, fixed.epochs: expected a number, got '2'"),
    ("{epochs: 2}", "{teachers: [a, {model: b, pooler: max}]}",
     "line 5, fixed.teachers.1.pooler: expected 'cls' or 'avg', got 'max'"),
    ("{epochs: 2}", "{pooler: mean}", "line 5, fixed.pooler: expected 'cls', 'avg', 'avg_top2', "
     "'avg_first_last' or 'mask', got 'mean'; did you mean 'avg'?"),
    (", when: {rank_loss: listnet}", "",
     "line 9, space.tau3: tau3=0.1 has no effect with rank_loss: listmle"),
    ("  temperature: {low: 1e-2, high: 0.1, log: true}\n", "",
     "line 1: method 'toy' needs 'temperature'; set it in 'fixed' or 'space'"),
    ("trials: 4", "budget: {time: soon}",
     "line 11, search.budget.time: expected a time such as 90s, 20min, 2h or 1d, got 'soon'"),
    ("trials: 4", "budget: {}",
     "line 11, search.budget: expected 'time', 'gpu_hours' or both"),
    ("trials: 4", "budget: {gpu_hours: 3}", "line 11, search.budget.gpu_hours: a trial takes no "
     "GPU; set resources.gpu, or give a time"),
    (SEARCH, "search: {trials: 4, sampler: cmaes}\nseeds: {repeats: true}", "line 12, "
     "seeds.repeats: sampler 'cmaes' has its own order of trials; use tpe, gp, auto or random"),
    (SEARCH, f"{SEARCH}\nseeds: {{repeats: true}}",
     "line 12, seeds.repeats: only early leaders would have several seeds and could be "
     "the sweep's best; add 'confirm', which gives seeds to the best at the end"),
    (SEARCH, f"{SEARCH}\nseeds: [0, 1, 2]", "line 12, seeds: expected a mapping, got [0, 1, 2]; "
     "write {search: 0, confirm: {top: 3, seeds: [0, 1, 2]}}: one seed for the search, and "),
    (SEARCH, f"{SEARCH}\nseeds: 7", "line 12, seeds: expected a mapping, got 7; write {search: 7}"),
    (SEARCH, f"{SEARCH}\nseeds: {{confirm: None}}", "line 12, seeds.confirm: expected a mapping, "
     "got 'None'; YAML writes None as null"),
    ("views:", "seed:", "line 10, space.seed: a seed is no setting of a trial; seeds: {search: 42, "
     "confirm: {top: 3, seeds: [0, 1, 2]}} beside 'space' gives seeds"),
    ("{epochs: 2}", "{max_steps: None}", "line 5, fixed.max_steps: got 'None'; YAML writes None as "
     "null"),
    ("{low: 2, high: 4}", "3", "line 10, space.views: expected a list of choices, {choices: [...]} "
     "or {low: ..., high: ...}, got 3; a single value goes under 'fixed', as 3"),
    ("{low: 2, high: 4}", "None", "line 10, space.views: expected a list of choices, {choices: "
     "[...]} or {low: ..., high: ...}, got 'None'; a single value goes under 'fixed'; YAML writes "
     "None as null"),
    ("{low: 2, high: 4}", "{value: 3}", "line 10, space.views: expected a list of choices, "
     "{choices: [...]} or {low: ..., high: ...}, got {\"value\": 3}; a single value goes under "
     "'fixed', as 3"),
    ("corpus: builtin", "corpus: builtin\n7: x", "line 5: a key must be text, got '7'"),
    *(("corpus: builtin", f"corpus: builtin\ndev: {dev}", f"line 5, dev.{said}") for dev, said in (
        ("{checkpoint: {file: a.tsv, columns: [a, b]}}",
         "checkpoint.columns: expected three columns, [FIRST, SECOND, SCORE], by name or by"),
        ("{checkpoint: {columns: [a, b, c]}}", "checkpoint: the key 'file' is missing"),
        ("{also: [stsb, {file: a.tsv, colums: [a, b, c]}]}",
         "also.1.colums: no such key; did you mean 'columns'?"),
        ("{also: [{file: a.tsv, scale: [5, 0]}]}", "also.0.scale: expected the lowest score, then"),
        ("{also: [{file: a.tsv, columns: [a, b, 0]}]}", "also.0.columns.2: expected "),
    )),
    (SEARCH, f"{SEARCH}\nevaluate: {{top: 1, tasks: [sts, {{file: a.tsv, separator: ''}}]}}",
     "line 12, evaluate.tasks.1.separator: "),
    ("corpus: builtin", "corpus: !!python/name:os.system x",
     "line 4, corpus: no such kind of value: !!python/name:os.system; remove the tag, and "),
    ("search: {", "search: !!python/object:os.x {",
     "line 11, search: no such kind of value: !!python/object:os.x; remove the tag"),
]  # fmt: skip


def test_each_problem_in_its_words(tmp_path: Path) -> None:
    for old, new, start in ONE_PROBLEM:
        (line,) = problems(tmp_path, edited(old, new))
        assert line.startswith(f"  {start}"), new
    assert problems(tmp_path, edited("[listnet, listmle]", "{low: 1, high: 2}")) == [
        "  line 8, space.rank_loss: not a number, so it has no range; list its choices",
        "  line 9, space.tau3.when.rank_loss: this dimension is a range; compare it "
        "with a number, as in '> 0'",
    ]


def test_all_problems_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    text = edited("epochs: 2", "epochs: -2, tmperature: 1").replace("trials: 4", "trials: no")
    text = text.replace("1e-2", "0.0") + "budget: 3\ndev: {checkpoint: stsbb}\npruner: hard\n"
    assert places(problems(tmp_path, text)) == [
        *("line 5, fixed.epochs", "line 5, fixed.tmperature", "line 7, space.temperature"),
        *("line 11, search.trials", "line 12, budget", "line 13, dev.checkpoint"),
        "line 14, pruner",
    ]
    text = edited("epochs: 2", "epochs: 2,\n  tau3: 0.3").replace(
        "  tau3: {choices: [0.1, 0.2], when: {rank_loss: listnet}}\n", ""
    )
    assert places(problems(tmp_path, text)) == ["line 6, fixed.tau3"]


def test_stages_are_sweeps_in_order(tmp_path: Path) -> None:
    second = GOOD.replace("toy-mini", "toy-2").replace("\n", "\n  ").rstrip()
    first = GOOD.replace("\n", "\n  ").rstrip()
    text = f"stages:\n- {first}\n- {second}\n"
    stages = load_sweep(write(tmp_path, text)).stages
    assert [stage.sweep for stage in stages] == ["toy-mini", "toy-2"]
    same = text.replace("toy-2", "toy-mini").replace("- sweep", "- budget: 1\n  sweep", 1)
    found = problems(tmp_path, same + "method: toy\n")
    expected = ["line 2, stages.0.budget", "line 14, stages.1.sweep", "line 25, method"]
    assert places(found) == expected and "'toy-mini'" in found[1]
    assert places(problems(tmp_path, "stages: {sweep: a}")) == ["line 1, stages"]


def test_a_dimension_is_taken_out_or_left_out_where_it_never_counts(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    (draft,) = read_draft(file, overrides=["space.rank_loss=[listmle]"]).stages
    assert not draft.inspection.problems
    assert "tau3" not in draft.spec.space
    (note,) = draft.notes
    assert note.startswith("space.tau3 is left out: ") and "rank_loss = listnet" in note
    given = ["space.tau3.when={temperature: ['< 0.02', '> 0.03']}"]
    (draft,) = read_draft(file, overrides=given).stages
    assert "where temperature < 0.02 and temperature > 0.03" in draft.notes[0]
    (spec,) = load_sweep(write(tmp_path, GOOD), overrides=["space.tau3=null"]).stages
    assert list(spec.space) == ["temperature", "rank_loss", "views"]
    (told,) = problems(tmp_path, GOOD, "space.vews=null")
    assert told == "  --set space.vews=null: no such dimension in space; did you mean 'views'?"


RULED = """\
sweep: s
method: arccse
backbone: mini
corpus: builtin
fixed: {max_steps: 2}
space:
  light_mask_rate: {low: 0.05, high: 0.3}
  heavy_mask_rate: {low: 0.2, high: 0.6}
search: {trials: 4}
"""


def test_what_the_method_refuses_is_left_out_of_the_examples_or_told(tmp_path: Path) -> None:
    """The highest of the light rates lies above the lowest of the heavy ones."""
    spec = loaded(tmp_path, RULED)
    points = spec.examples
    assert {point["light_mask_rate"] for point in points} == {0.05, 0.3}
    assert all(point["light_mask_rate"] < point["heavy_mask_rate"] for point in points)
    points = "{light_mask_rate: 0.3, heavy_mask_rate: 0.35}, {light_mask_rate: 0.3, "
    points += "heavy_mask_rate: 0.25}"
    (line,) = problems(tmp_path, RULED.replace("trials: 4", f"trials: 4, start_from: [{points}]"))
    assert line.startswith("  line 9, search.start_from.1: ") and "0.3 is not below" in line
    # A choice that goes with nothing is told by its reason, a space by the share of it.
    (line,) = problems(tmp_path, RULED.replace("{low: 0.05, high: 0.3}", "[0.1, 0.7]"))
    assert line.startswith("  line 7, space.light_mask_rate: light_mask_rate=0.7 is not below ")
    few = RULED.replace("0.05, high: 0.3", "0.3, high: 0.9").replace("high: 0.6", "high: 0.305")
    (line,) = problems(tmp_path, few)
    assert line.startswith("  line 6, space: arccse refuses all but ")
    assert "too few for a search" in line


def test_a_choice_that_goes_with_something_is_not_refused(tmp_path: Path) -> None:
    """With a value inside a parent's range, with another range's bound, or beside many others."""
    rates = "{low: 0.1, high: 0.9}", "{low: 0.1, high: 0.3}"
    inside = "{choices: [0.05, 0.1], when: light_mask_rate > 0.15}"
    rare = "{choices: [0.05, 0.1], when: {batch_size: 20}}"
    for light, heavy, temperature in (
        (*rates, inside),
        ("[0.1, 0.2998]", "{low: 0.1, high: 0.3, log: true}", "[0.05, 0.1]"),
        (*rates, f"{rare}\n  batch_size: {[*range(8, 21)]}"),
    ):
        space = (
            f"  heavy_mask_rate: {heavy}\n  light_mask_rate: {light}\n  temperature: {temperature}"
        )
        text = RULED[: RULED.index("  light")] + f"{space}\nsearch: {{trials: 4}}\n"
        assert {0.05, 0.1} <= {
            point.get("temperature") for point in loaded(tmp_path, text).examples
        }


def test_whole_numbers_may_be_written_as_floats(tmp_path: Path) -> None:
    written = edited(
        "search: {trials: 4}\n",
        "search: {trials: 1e1, sampler: {kind: tpe, startup_trials: 5.0}}\n"
        "seeds: {search: 42.0, confirm: {top: 1.0, seeds: [1e0, 2]}}\n"
        "pruner: {kind: successive_halving, min_step: 1e2}\n"
        "evaluate: {top: 1.0, tasks: [sts]}\n",
    )
    plain = written.replace("1e1", "10").replace("5.0", "5").replace("42.0", "42")
    plain = plain.replace("1.0", "1").replace("1e0", "1").replace("1e2,", "100")
    found, expected = loaded(tmp_path, written), loaded(tmp_path, plain.replace("1e2", "100"))
    assert found.model_dump_json() == expected.model_dump_json()
    assert problems(tmp_path, written, "seeds.search=true", "search.trials=10.5") == [
        "  --set search.trials=10.5, search.trials: expected a whole number, got 10.5",
        "  --set seeds.search=true, seeds.search: expected a whole number, got true",
    ]
