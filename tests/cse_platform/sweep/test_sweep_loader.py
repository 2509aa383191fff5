from pathlib import Path

from sweep_texts import load, problems, write

from cse_platform.sweep.conditions import Condition
from cse_platform.sweep.file import load_sweep, read_draft
from cse_platform.sweep.space.dimensions import Range

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


def places(told: list[str]) -> list[str]:
    """The line and the key of each problem, without what is wrong."""
    return [line.split(": ")[0] for line in told]


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
    spec = load(tmp_path, GOOD + f"stores: {{leaderboard: '{store}'}}\n")
    assert spec.stores.leaderboard == store


def test_every_outcome_of_comparisons_is_checked(tmp_path: Path) -> None:
    """Between the two bounds both dimensions take part, which neither end of the range shows."""
    compared = GOOD.replace("{rank_loss: listnet}", "{rank_loss: listnet, temperature: '>= 0.03'}")
    compared = compared.replace("high: 4}", "high: 4, when: {temperature: < 0.05}}")
    points = load(tmp_path, compared).examples
    taking_part = {frozenset(point) - {"temperature", "rank_loss"} for point in points}
    assert taking_part == {frozenset(s) for s in (["views"], ["views", "tau3"], ["tau3"], [])}


def test_a_good_file_loads(tmp_path: Path) -> None:
    spec = load(tmp_path, GOOD)
    assert (spec.sweep, spec.method, spec.search.trials) == ("toy-mini", "toy", 4)
    assert spec.pruner.kind == "none" and spec.seeds.search == 42
    assert spec.space["tau3"].when == (Condition("rank_loss", "=", ("listnet",)),)
    assert spec.config({"temperature": 0.05, "rank_loss": "listmle", "tau3": 0.1}).epochs == 2
    text = edited("fixed: {epochs: 2}", "fixed: {}")
    text = text.replace("space:\n", "space:\n  epochs: {low: 1, high: 3}\n")
    space = load(tmp_path, text).space
    epochs, views = space["epochs"], space["views"]
    assert isinstance(epochs, Range) and not epochs.is_whole and epochs.low == 1.0
    assert isinstance(views, Range) and views.is_whole


def test_a_data_file_lies_beside_the_sweep_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in ("both.txt", "here/both.txt", "here/only_here.txt"):
        (tmp_path / place).touch()
    text = GOOD.replace("builtin", "[both.txt, only_here.txt, ./nowhere.csv, wiki1m]")
    found = [tmp_path / "both.txt", tmp_path / "here" / "only_here.txt", tmp_path / "nowhere.csv"]
    corpus = load(tmp_path, text).corpus
    assert [one.name for one in corpus] == [*map(str, found), "wiki1m"]


def test_a_variable_that_is_not_set_is_a_problem_among_the_others(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("NO_SUCH_FOLDER", raising=False)
    text = GOOD.replace("builtin", "${NO_SUCH_FOLDER}/x.txt").replace("trials: 4", "trials: none")
    unset = "${NO_SUCH_FOLDER}: the environment has no variable of that name"
    first, second, third = problems(
        tmp_path, text + 'dev: {checkpoint: "${NO_SUCH_FOLDER}/d.tsv", search: stsb}\n'
    )
    assert first == f"line 4, corpus: {unset}"
    assert second.startswith("line 11, search.trials: ")
    assert third == f"line 12, dev: {unset}"


EDITS = (Path(__file__).with_name("problems.txt")).read_text().split("\n\n")
"""Each takes the lines after `-` out of the good file, or none, puts those after `+` in their place
or at the end, sets those after `!`, and makes the problem that begins as after `=`.
"""


def test_each_problem_in_its_words(tmp_path: Path) -> None:
    for edit in EDITS:
        lines = edit.splitlines()
        old, new, override, says = (
            "\n".join(line[2:] for line in lines if line[0] == mark) for mark in "-+!="
        )
        text = edited(old, new) if old else f"{GOOD}{new}\n"
        (line,) = problems(tmp_path, text, *override.splitlines())
        assert line.startswith(says), edit
    assert problems(tmp_path, edited("[listnet, listmle]", "{low: 1, high: 2}")) == [
        "line 8, space.rank_loss: not a number, so it has no range; list its choices",
        "line 9, space.tau3.when.rank_loss: this dimension is a range; compare it "
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
    refused = problems(tmp_path, f"{GOOD}serach: {{trials: 1e999}}\n")
    assert places(refused) == ["line 12, serach", "line 12, serach.trials"]


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
    spec = load(tmp_path, RULED)
    points = spec.examples
    assert {point["light_mask_rate"] for point in points} == {0.05, 0.3}
    assert all(point["light_mask_rate"] < point["heavy_mask_rate"] for point in points)
    points = "{light_mask_rate: 0.3, heavy_mask_rate: 0.35}, {light_mask_rate: 0.3, "
    points += "heavy_mask_rate: 0.25}"
    (line,) = problems(tmp_path, RULED.replace("trials: 4", f"trials: 4, start_from: [{points}]"))
    assert line.startswith("line 9, search.start_from.1: ") and "0.3 is not below" in line
    # A choice that goes with nothing is told by its reason, a space by the share of it.
    (line,) = problems(tmp_path, RULED.replace("{low: 0.05, high: 0.3}", "[0.1, 0.7]"))
    assert line.startswith("line 7, space.light_mask_rate: light_mask_rate=0.7 is not below ")
    few = RULED.replace("0.05, high: 0.3", "0.3, high: 0.9").replace("high: 0.6", "high: 0.33")
    (line,) = problems(tmp_path, few)
    assert line.startswith("line 6, space: arccse refuses all but ")
    assert "too few for a search" in line
    (line,) = problems(tmp_path, few.replace("high: 0.33", "high: 0.305"))
    assert line.startswith("line 6, space: arccse refuses all 2,000 random points, ")
    # Without sound corpora, no share is told.
    (line,) = problems(tmp_path, few.replace("builtin", "{name: a.csv, columns: [1, 2]}"))
    assert line.startswith("line 4, corpus")


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
        assert {0.05, 0.1} <= {point.get("temperature") for point in load(tmp_path, text).examples}


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
    found, expected = load(tmp_path, written), load(tmp_path, plain.replace("1e2", "100"))
    assert found.model_dump_json() == expected.model_dump_json()
