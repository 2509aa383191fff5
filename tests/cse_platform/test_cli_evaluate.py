"""`cse-evaluate` on encoders that are nobody's trial, and what it refuses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cse_methods.encoders.loading import load_encoder
from cse_methods.evaluation.test_sets.pairs import load_pair_set
from cse_methods.metrics import cosines, spearman
from cse_platform.cli.evaluate import main
from cse_platform.leaderboard.store import open_store
from cse_platform.runner.models import TRIAL_FILE


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing but what the command line names."""
    for name in ("CSE_DATA", "CSE_STORE", "CSE_MLFLOW_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_json_holds_every_score_with_its_identity() -> None:
    done = run("mini", "--data", "builtin", "--tasks", "stsb,geometry", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    found = {(s["task"], s["split"], s["metric"]): s for s in told["scores"]}
    pairs = load_pair_set("stsb", "builtin")
    encoder = load_encoder("mini")
    by_hand = spearman(
        cosines(encoder.encode(pairs.first), encoder.encode(pairs.second)), pairs.gold
    )
    assert found["stsb", "test", "spearman"]["value"] == pytest.approx(by_hand, abs=1e-5)
    assert {"alignment", "uniformity", "effective_rank", "mean_cosine"} == {
        metric for task, split, metric in found if split == "dev"
    }
    for score in told["scores"]:
        settings = told["identities"][score["identity"]]
        assert settings["task"] == "stsb"
        assert settings["reading"]["pooler"] == "avg"


def test_tables_for_people() -> None:
    done = run("mini", "--data", "builtin", "--tasks", "sts,ranking,geometry")
    assert done.exit_code == 0, done.output
    for line in ("STS test sets, correlation x 100", "Spearman, all", "avg_sts", "Geometry"):
        assert line in done.stdout
    assert "Read with: pooler avg" in done.stdout


def test_another_reading_is_another_identity() -> None:
    def identities(*arguments: str) -> set[str]:
        done = run("mini", "--data", "builtin", "--tasks", "sickr", "--json", *arguments)
        assert done.exit_code == 0, done.output
        return {score["identity"] for score in json.loads(done.stdout)["scores"]}

    plain = identities()
    assert plain == identities()
    for other in (["--pooler", "cls"], ["--max-length", "16"], ["--slicing-length", "8"]):
        assert not identities(*other) & plain


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["mini", "--tasks", "stsB"], "no task 'stsB'. Did you mean 'stsb'?"),
        (["mini", "--tasks", ","], "no task is named"),
        (["minni", "--data", "builtin"], "no backbone 'minni'. Did you mean 'mini'?"),
        (["mini", "--data", "/nowhere"], "'/nowhere' is not a folder"),
        (["abcdef12", "--data", "builtin"], "as the key of a trial it needs a leaderboard: no"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], told: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 1
    assert told in done.stderr
    begin, line = done.stderr.splitlines()
    assert begin == f"reading {arguments[0]}…" and line.startswith("Error: ")


def test_what_has_no_value_is_told() -> None:
    """No built-in sentence stands in more than three pairs, so there is nothing to rank."""
    done = run("mini", "--data", "builtin", "--tasks", "ranking,sts12", "--json")
    told = json.loads(done.stdout)
    absent = {(one["task"], one["metric"]) for one in told["without_value"]}
    assert {("sts12", "kcc"), ("sickr", "ndcg")} <= absent
    assert not absent & {(one["task"], one["metric"]) for one in told["scores"]}
    shown = run("mini", "--data", "builtin", "--tasks", "ranking,sts12").stdout
    assert "No value: sts12 kcc, sts12 ndcg" in " ".join(shown.split())


def test_a_trials_model_is_known_by_its_folder_wherever_it_lies(tmp_path: Path) -> None:
    """Without its leaderboard, its test sets are not opened: nothing would record it."""
    original = tmp_path / "model"
    load_encoder("mini").save(original)
    (original / TRIAL_FILE).write_text("ab" * 32 + "\n")
    shutil.copytree(original, tmp_path / "copied")
    (tmp_path / "link").symlink_to(original)
    for name in ("model", "copied", "link"):
        done = run(name, "--data", "builtin")
        assert done.exit_code == 1
        assert "is the model of trial abababababababab, whose leaderboard" in done.stderr
    with open_store(f"sqlite:///{tmp_path / 'runs' / 'leaderboard.db'}"):
        pass
    assert "which this one does not know" in run("model", "--data", "builtin").stderr


def test_a_folder_that_lacks_a_file_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    (tmp_path / "data" / "downstream").mkdir(parents=True)
    done = run("mini", "--data", str(tmp_path / "data"))
    assert done.exit_code == 1
    assert "no such file, and sts12 is scored on it; " in done.stderr


def test_a_model_without_a_tokenizer(tmp_path: Path) -> None:
    load_encoder("mini").save(tmp_path / "model")
    for file in (tmp_path / "model").glob("*token*"):
        file.unlink()
    done = run(str(tmp_path / "model"), "--data", "builtin")
    assert done.exit_code == 1
    assert "has no tokenizer; expected tokenizer.json or a vocabulary" in done.stderr


def test_an_encoder_that_gives_nan(tmp_path: Path) -> None:
    encoder = load_encoder("mini")
    encoder.model.embeddings.word_embeddings.weight.data.fill_(float("nan"))
    encoder.save(tmp_path / "model")
    done = run(str(tmp_path / "model"), "--data", "builtin", "--tasks", "stsb")
    assert done.exit_code == 1
    assert "holds NaN or infinity; it cannot be scored" in done.stderr


def test_help_has_an_example_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from cse_platform.cli.evaluate import main\n"
        "main(['-h'], standalone_mode=False)\n"
        "heavy = {'torch', 'ray', 'mlflow', 'numpy', 'sqlalchemy', 'rich', 'pydantic', 'jinja2'}\n"
        "assert not heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cse-evaluate 10bba02b --tasks" in done.stdout
