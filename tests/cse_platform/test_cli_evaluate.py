import json
from functools import partial

import pytest
from commands import invoke

from cse_methods.encoders.loading import load_encoder
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.metrics import cosines, spearman
from cse_platform.cli.evaluate import main
from cse_platform.kept_models import TRIAL_FILE

run = partial(invoke, main)


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)


def test_json_holds_every_score_with_its_identity() -> None:
    done = run("mini", "--data", "builtin", "--tasks", "stsb,geometry", "--json")
    told = json.loads(done.stdout)
    found = {(s["task"], s["split"], s["metric"]): s for s in told["scores"]}
    pairs = load_pair_set("stsb", "builtin")
    encoder = load_encoder("mini")
    by_hand = spearman(
        cosines(encoder.encode(pairs.first), encoder.encode(pairs.second)), pairs.gold
    )
    assert found["stsb", "test", "spearman"]["value"] == pytest.approx(by_hand, abs=1e-5)
    geometry = {metric for task, split, metric in found if split == "dev"}
    assert geometry == {"alignment", "uniformity", "effective_rank", "mean_cosine"}
    for score in told["scores"]:
        settings = told["identities"][score["identity"]]
        assert settings["task"] == score["task"]
        assert settings["reading"]["pooler"] == "avg"


def test_tables_for_people() -> None:
    done = run("mini", "--data", "builtin", "--tasks", "stsb,geometry", "--dims", "192,8")
    for line in ("STS test sets, correlation x 100", "Spearman, all", "Geometry", "coordinates"):
        assert line in done.stdout
    table = done.stdout.partition("First coordinates alone, Spearman x 100")[2].split()
    whole = done.stdout.partition("Spearman, all")[2].split()[0]
    assert table[table.index("192") + 1] == whole != table[table.index("8") + 1]
    assert "Read with: pooler avg" in done.stdout
    for dims in ("0", "32,x", "9" * 5000):
        assert "is not a list such as 32,64" in invoke(main, "mini", "--dims", dims, code=2).stderr


@pytest.mark.slow
def test_what_has_no_value_is_told() -> None:
    """No built-in sentence stands in more than three pairs, so there is nothing to rank."""
    words = ("mini", "--data", "builtin", "--tasks", "ranking,sts")
    told = json.loads(run(*words, "--json").stdout)
    absent = {(one["task"], one["metric"]) for one in told["without_value"]}
    assert {("sts12", "kcc"), ("sickr", "ndcg")} <= absent
    assert not absent & {(one["task"], one["metric"]) for one in told["scores"]}
    shown = run(*words).stdout
    assert "avg_sts" in shown and "No value: kcc, ndcg, ndcg_exponential of sts12, " in " ".join(
        shown.split()
    )


def test_an_own_file_has_the_settings_of_a_sweep_file_in_braces(tmp_path) -> None:
    pairs = load_pair_set("stsb", "builtin")
    rows = zip(pairs.first[:40], pairs.second[:40], pairs.gold[:40], strict=True)
    lines = "".join(f'"{first}\t{second}\t{gold}\n' for first, second, gold in rows)
    (tmp_path / "mine.tsv").write_text(lines)
    plain, stated = "./mine.tsv", "{file: ./mine.tsv, format: unquoted, name: ours}"
    refused = run("mini", "--data", "builtin", "--tasks", plain, code=1)
    assert "write {file: mine.tsv, format: unquoted} if quotes are characters" in refused.stderr
    told = json.loads(run("mini", "--data", "builtin", "--tasks", stated, "--json").stdout)
    assert {score["task"] for score in told["scores"]} == {"ours"}
    wrong = invoke(main, "mini", "--tasks", "{file: a.tsv, formt: csv}", code=2)
    assert "'--tasks'" in wrong.stderr and "a file of pairs has the keys format, " in wrong.stderr


def test_refusals_are_one_line(tmp_path) -> None:
    (tmp_path / "data" / "downstream").mkdir(parents=True)
    for words, told in {
        "mini --tasks stsB": "no task 'stsB'. Did you mean 'stsb'?",
        "mini --tasks ,": "no task is named",
        "mini --head --data builtin": "have no pooler.dense; leave head out",
        "minni": "'minni' is neither a folder nor a trial: no encoder 'minni'. Did you mean 'mi",
        "../minni": "Error: encoder '../minni': there is no such folder",
        "mini --data /nowhere": "'/nowhere' is not a folder",
        f"mini --data {tmp_path}/data": "sts12 is scored on this file, which is missing; ",
        "abcdef12 --data builtin": "to find it as a trial, name a leaderboard: no",
    }.items():
        done = run(*words.split(), code=1)
        assert told in done.stderr, (words, done.stderr)
        begin, line = done.stderr.splitlines()
        assert begin == f"reading {words.split()[0]}…" and line.startswith("Error: ")


def test_a_trials_model_is_known_by_its_folder(tmp_path, empty_leaderboard) -> None:
    """Without its leaderboard, its test sets are not opened: nothing would record it."""
    original = tmp_path / "model"
    load_encoder("mini").save(original)
    (original / TRIAL_FILE).write_text("ab" * 32 + "\n")
    (tmp_path / "link").symlink_to(original)
    for name in ("model", "link"):
        done = run(name, "--data", "builtin", code=1)
        assert "is the model of trial abababababababab; name its" in done.stderr
    empty_leaderboard(tmp_path / "runs" / "leaderboard.db")
    assert "which this one does not know" in run("model", "--data", "builtin", code=1).stderr


def test_a_model_that_cannot_be_read_or_gives_nan_is_refused(tmp_path) -> None:
    encoder = load_encoder("mini")
    encoder.model.embeddings.word_embeddings.weight.data.fill_(float("nan"))
    encoder.save(tmp_path / "model")
    done = run("model", "--data", "builtin", "--tasks", "stsb", code=1)
    assert "weight embeddings.word_embeddings.weight holds NaN" in done.stderr
    for file in (tmp_path / "model").glob("*token*"):
        file.unlink()
    done = run("model", "--data", "builtin", code=1)
    assert "has no tokenizer; expected tokenizer.json or a vocabulary" in done.stderr
