import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import python

from cse_methods.contract import Method
from cse_methods.data.senteval import missing_senteval
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.errors import DataError
from cse_methods.evaluation.test_sets.availability import missing_tests
from cse_methods.precision import auto_precision
from cse_methods.registry import get_method
from cse_methods.tasks import parse_tasks
from cse_platform.errors import SweepRefusedError
from cse_platform.stores.optuna.sink import open_search_store
from cse_platform.stores.sql.store import open_store
from cse_platform.sweep import preflight as fit
from cse_platform.sweep.doubts import describe_doubts
from cse_platform.sweep.preflight import (
    check_encoders,
    find_unresolved_references,
    list_downloads,
    measure_sizes,
    sample_configs,
    with_data_source,
)
from cse_platform.sweep.problems import Inspection
from cse_platform.sweep.references import BestReference
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import (
    has_mlflow,
    ray_temporary_folder,
    refuse_unwritable,
    sweep_stores,
)
from cse_platform.tracking.journal import Journal


def sweep(**changes: Any) -> SweepSpec:
    given: dict[str, Any] = {
        "sweep": "a", "method": "toy", "backbone": "mini", "corpus": "builtin",
        "data": "builtin", "fixed": {"temperature": 0.05}, "search": {"trials": 1},
    }  # fmt: skip
    return SweepSpec.model_validate(given | changes)


def downloads(spec: SweepSpec) -> list[str]:
    found = Inspection()
    configs = sample_configs(spec, found)
    missing = list_downloads(spec, configs, found)
    check_encoders(spec, configs, found)
    assert not found.problems, found
    return missing


def problems(spec: SweepSpec) -> list[tuple[str, str]]:
    """The first key of each problem, and its text."""
    found = Inspection()
    configs = sample_configs(spec, found)
    list_downloads(spec, configs, found)
    check_encoders(spec, configs, found)
    return [(str(*problem.path[:1]), problem.text) for problem in found.problems]


def test_ray_gets_a_short_folder_that_can_be_written_to(tmp_path: Path, monkeypatch) -> None:
    long = tmp_path / ("of_a_job" * 9)
    long.mkdir()
    for given, used in (("/var/tmp", "/var/tmp"), (str(long), "/tmp"), ("/not/there", "/tmp")):
        monkeypatch.delenv("RAY_TMPDIR", raising=False)
        monkeypatch.setenv("TMPDIR", given)
        assert ray_temporary_folder() == Path(used, f"ray-{os.getuid()}")
    monkeypatch.setattr(os, "getuid", lambda: 4242)  # whose folders are another's
    taken = [Path(folder, "ray-4242") for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    try:
        for folder in taken:
            folder.mkdir()
        with pytest.raises(SweepRefusedError, match="set RAY_TMPDIR to a short"):
            ray_temporary_folder()
    finally:
        for folder in taken:
            folder.rmdir()


def test_rays_folder_is_closed_to_other_users(monkeypatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ray") as given:
        monkeypatch.setenv("RAY_TMPDIR", given)
        assert ray_temporary_folder().stat().st_mode & 0o777 == 0o700
        ray_temporary_folder().chmod(0o777)
        assert ray_temporary_folder().stat().st_mode & 0o777 == 0o700


def test_the_file_wins_over_the_environment(tmp_path: Path, monkeypatch) -> None:
    spec = sweep(stores={"search": "sqlite:///file.db"}, storage="s3://bucket/lab/")
    monkeypatch.setenv("CSE_SEARCH_STORE", "sqlite:///ignored.db")
    monkeypatch.setenv("CSE_STORE", "sqlite:///kept.db")
    here = sweep_stores(spec, runs=tmp_path)
    assert (here.search, here.leaderboard) == ("sqlite:///file.db", "sqlite:///kept.db")
    assert here.checkpoints == "s3://bucket/lab/sweeps/a/ray"
    assert here.models == "s3://bucket/lab/artifacts/models/a"
    server = "postgresql+psycopg://lab@host"  # whose databases are stores of their own
    monkeypatch.setenv("CSE_STORE", f"{server}/one")
    monkeypatch.setenv("CSE_SEARCH_STORE", f"{server}/two")
    assert sweep_stores(sweep(), runs=tmp_path).search == f"{server}/two"


def test_mlflow_s_own_variable_names_its_store_where_ours_is_silent(tmp_path, monkeypatch) -> None:
    assert not has_mlflow(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.lab:5000")
    assert has_mlflow(tmp_path)
    named = sweep(stores={"mlflow": "sqlite:///file.db"})
    for ours, spec, uri in (
        ("sqlite:///ours.db", sweep(), "sqlite:///ours.db"),
        ("", sweep(), "http://mlflow.lab:5000"),
        ("", named, "sqlite:///file.db"),
    ):
        monkeypatch.setenv("CSE_MLFLOW_URI", ours)
        assert sweep_stores(spec, runs=tmp_path).mlflow == uri
    of_the_folder = tmp_path / "mlflow.db"
    of_the_folder.touch()  # what an earlier sweep wrote is deleted, copied and gone on with there
    assert sweep_stores(sweep(), runs=tmp_path).mlflow == f"sqlite:///{of_the_folder}"


def test_one_database_for_two_stores_is_refused(tmp_path: Path, monkeypatch) -> None:
    for stores, environment, names in (
        ({}, {"CSE_STORE": "sqlite:///x.db", "CSE_SEARCH_STORE": "sqlite:///x.db"},
         ("leaderboard", "search")),
        ({"search": "sqlite:///x.db"}, {"CSE_MLFLOW_URI": "sqlite:///./x.db"},
         ("search", "mlflow")),
        ({"leaderboard": "postgresql+psycopg://a:one@host/lab"},
         {"CSE_MLFLOW_URI": "postgresql://b:two@host/lab?sslmode=require"},
         ("leaderboard", "mlflow")),
        ({}, {"CSE_MLFLOW_URI": "sqlite:///RUNS/search.db"}, ("search", "mlflow")),
    ):  # fmt: skip
        first, second = names
        with monkeypatch.context() as patched, pytest.raises(SweepRefusedError) as caught:
            for name, url in environment.items():
                patched.setenv(name, url.replace("RUNS", str(tmp_path)))
            sweep_stores(sweep(stores=stores), runs=tmp_path)
        assert str(caught.value).startswith(
            f"the stores {first!r} and {second!r} have the same URL; "
        )
    runs = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(SweepRefusedError, match=r"caf\\udce9 is not UTF-8.* --runs"):
        sweep_stores(sweep(), runs=runs)


def test_what_must_be_fetched_is_found_without_torch() -> None:
    code = (
        "import sys; from cse_methods.tasks import parse_tasks\n"
        "from cse_methods.evaluation.test_sets.availability import missing_tests\n"
        "missing_tests(parse_tasks(['sts', 'geometry', 'mteb:STS12']), 'builtin')\n"
        "heavy = {'torch', 'transformers', 'scipy', 'mteb', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    python(code)


def test_the_data_source_is_written_out(toy, tmp_path, monkeypatch) -> None:
    (tmp_path / "data" / "corpus").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CSE_DATA", "data")
    assert with_data_source(sweep(data=None), Inspection()).data == str(tmp_path / "data")
    assert with_data_source(sweep(), Inspection()).data == "builtin"
    monkeypatch.delenv("CSE_DATA")
    assert with_data_source(sweep(data=None), Inspection()).data == "hub"
    found = Inspection()
    with_data_source(sweep(data="nowhere"), found)
    assert "'nowhere' is not a folder" in found.problems[0].text


def test_what_the_hub_has_is_listed(toy: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = sweep(
        method="rankcse", backbone="bert-base", corpus="wiki1m", data="hub",
        fixed={}, space={"teachers": [["simcse-bert-base"], ["nobody/nothing"]]},
    )  # fmt: skip
    listed = downloads(spec)
    newest = "whichever revision is newest (to pin one: {}@REVISION)".format
    assert listed[:3] == [
        "encoder bert-base: google-bert/bert-base-uncased at "
        "86b5e0934494bd15c9632b12f734a8a67f723594",
        "encoder simcse-bert-base: princeton-nlp/unsup-simcse-bert-base-uncased, "
        + newest("simcse-bert-base"),
        f"encoder nobody/nothing: nobody/nothing, {newest('nobody/nothing')}",
    ]
    assert "wiki1m" in listed[3]
    assert len(listed) == 6  # and the two dev sets


def test_what_no_hub_has_is_refused(toy: Method, tmp_path: Path) -> None:
    spec = sweep(backbone="brt-base", corpus=["builtin", "no-such-corpus"])
    (backbone, nearest), (corpus, unknown) = problems(spec)
    assert (backbone, corpus) == ("backbone", "corpus")
    assert "no encoder 'brt-base'. Did you mean 'bert-base'" in nearest
    assert "no-such-corpus" in unknown
    ((_, told),) = problems(sweep(backbone=str(tmp_path / "nowhere")))
    assert "nowhere': there is no such folder" in told
    taught = sweep(method="rankcse", fixed={"teachers": ["simcse"]})
    [(_, told)] = problems(taught)
    assert told.startswith("'simcse' is a method; write {best: {method: simcse, backbone: mini}}")


def test_an_encoder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(Path(resolve_backbone("mini").model), tmp_path / "model")
    stored = json.loads((folder / "config.json").read_text())
    first_last = {"pooler": "avg_first_last", "first_layer": 2}
    for config, changes, datum in (
        ({"model_type": "gpt2"}, {}, "of the model's tensors, h.0.attn.c_attn.bias the first"),
        ({"max_position_embeddings": 99}, {"space": {"max_length": [99, 100]}},
         "max_length 100 is above the 99 positions"),
        ({"num_hidden_layers": 1}, {"fixed": first_last}, "first_layer 2 is beyond the 1 layers"),
    ):  # fmt: skip
        (folder / "config.json").write_text(json.dumps(stored | config))
        spec = sweep(**({"method": "simcse", "backbone": str(folder), "fixed": {}} | changes))
        assert datum in dict(problems(spec))["backbone"]


def test_word_vectors_are_scored_and_not_trained(tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    file.write_text("dog 1 2\ncat 3 4\n")
    scored = {"method": "untrained", "backbone": str(file), "fixed": {"pooler": "avg"}}
    assert downloads(sweep(**scored)) == []
    [(key, text)] = problems(sweep(**scored | {"fixed": {"pooler": "cls"}}))
    assert (key, "set pooler: avg instead of cls" in text) == ("backbone", True)
    [(key, text)] = problems(sweep(**scored | {"method": "simcse"}))
    assert (key, "nothing is trained on it" in text) == ("backbone", True)
    taught = {"pooler": "avg", "teachers": [str(file)]}
    assert downloads(sweep(method="rankcse", fixed=taught)) == []
    cut = [{"name": "builtin", "split_at": 8}]
    found, spec = Inspection(), sweep(**scored, corpus=cut)
    measure_sizes(spec, sample_configs(spec, found), found)
    assert "has no word pieces" in str([problem.text for problem in found.problems])


def test_a_file_of_a_method_that_is_not_there_is_refused(toy: Method, tmp_path: Path) -> None:
    there, gone = tmp_path / "there.txt", tmp_path / "gone.txt"
    there.write_text("a clause\tanother\n")
    fixed = {"temperature": 0.05}
    assert downloads(sweep(fixed=fixed | {"phrases": str(there)})) == []
    searched = sweep(fixed=fixed, space={"phrases": [str(there), str(gone)]})
    assert problems(searched) == [("space", f"toy reads {str(gone)!r}: no such file")]


def test_test_sets_that_are_not_there_are_told_before_the_first_trial(
    toy: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert downloads(sweep(evaluate={"top": 1, "tasks": ["mr"]})) == []
    asked = {"top": 1, "tasks": ["long"]}
    assert downloads(sweep(evaluate=asked)) == []  # built in
    long = missing_tests(parse_tasks(["long"]), "hub")
    assert long == ["yelp (fancyzhx/yelp_polarity)", "imdb (stanfordnlp/imdb)"]
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    tasks = parse_tasks(["sts", "mr"])
    assert missing_tests(tasks, "hub") == missing_senteval() != []
    (tmp_path / "downstream").mkdir()
    with pytest.raises(DataError, match=r"MSRpar\.txt: sts12 is scored on this file"):
        missing_tests(tasks, str(tmp_path))


def test_a_best_encoder_is_found_in_an_earlier_stage_or_not_at_all() -> None:
    best = {"best": {"method": "simcse", "backbone": "mini"}}
    spec = sweep(method="rankcse", fixed={"teachers": [best]})
    assert downloads(spec) == []
    assert find_unresolved_references(spec, []) == [BestReference("simcse", "mini")]
    earlier = {"method": "simcse", "fixed": {}}
    assert find_unresolved_references(spec, [sweep(**earlier)]) == []
    assert find_unresolved_references(spec, [sweep(**earlier, backbone="bert-base")]) != []


def test_a_group_that_may_write_to_the_folder_may_write_to_its_files(tmp_path: Path) -> None:
    mask = os.umask(0o002)
    try:
        Journal(tmp_path / "journal.jsonl").close()
        open_store(f"sqlite:///{tmp_path / 'leaderboard.db'}").close()
        open_search_store(f"sqlite:///{tmp_path / 'search.db'}").engine.dispose()
    finally:
        os.umask(mask)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes.keys() > {"journal.jsonl", "leaderboard.db", "search.db"}
    assert set(modes.values()) == {0o664}


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., SweepSpec]:
    """Makes a sweep over a corpus of 100 sentences, with changes."""
    corpus = tmp_path / "hundred.txt"
    corpus.write_text("".join(f"sentence {number}\n" for number in range(100)))

    def make(**changes: Any) -> SweepSpec:
        sweep = {
            "sweep": "tiny", "method": "simcse", "backbone": "mini", "corpus": str(corpus),
            "data": "builtin", "fixed": {"batch_size": 10},
            "space": {"learning_rate": {"low": 1e-5, "high": 1e-4}},
            "search": {"sampler": "random", "trials": 3, "seed": 1},
        }  # fmt: skip
        return SweepSpec.model_validate(sweep | changes)

    return make


def sizes(spec: SweepSpec) -> fit.Sizes:
    found = Inspection()
    measured = fit.measure_sizes(spec, sample_configs(spec, found), found)
    assert measured is not None, found
    return measured


def refusals(spec: SweepSpec) -> str:
    found = Inspection()
    assert fit.measure_sizes(spec, sample_configs(spec, found), found) is None or found.problems
    return "; ".join(problem.text for problem in found.problems)


def doubts(spec: SweepSpec, measured: fit.Sizes | None) -> list[str]:
    configs = sample_configs(spec, Inspection())
    return describe_doubts(spec, get_method(spec.method), configs, measured)


def test_steps_are_whole_batches_of_the_epochs(spec: Callable[..., SweepSpec]) -> None:
    """100 sentences: 10 batches of 10, or 3 of 30; two and a half epochs of those are 8 steps."""
    found = sizes(spec())
    assert (found.fewest_steps, found.most_steps) == (10, 10)
    assert list(found.corpus.sentences) == [f"sentence {number}" for number in range(100)]
    searched = spec(fixed={"epochs": 2.5}, space={"batch_size": [10, 30]})
    assert (sizes(searched).fewest_steps, sizes(searched).most_steps) == (8, 25)
    assert sizes(spec(fixed={"max_steps": 7, "batch_size": 10})).most_steps == 7
    one, never = {"sampler": "grid"}, {"kind": "median", "min_step": 2}
    unknown = spec(method="untrained", fixed={}, space={}, search=one, pruner=never)
    assert sizes(unknown).most_steps == 0
    assert doubts(unknown, sizes(unknown)) == []  # nothing is claimed of a method without steps


def test_what_does_not_fit_corpus_or_width_is_refused(spec: Callable[..., SweepSpec]) -> None:
    for place, batch in (("fixed", 101), ("space", [50, 101])):
        found, sweep = Inspection(), spec(**{"fixed": {}, place: {"batch_size": batch}})
        fit.measure_sizes(sweep, sample_configs(sweep, found), found)
        (problem,) = found.problems
        assert problem.path == (place, "batch_size")
        assert re.search("batch_size 101.*100 sentences", problem.text)
    for place, groups in (("fixed", 7), ("space", [64, 7])):
        refused = refusals(spec(method="whitenedcse", **{"fixed": {}, place: {"groups": groups}}))
        assert "groups: 7 does not divide the 192 " in refused
    assert sizes(spec(method="whitenedcse", fixed={"groups": 64}))
    assert "d0 is 193, and the embeddings" in refusals(spec(method="compcse", fixed={"d0": 193}))
    cut = [{"name": str(spec().corpus[0].name), "split_at": 32}]
    assert refusals(spec(backbone="bert-large", corpus=cut)) == ""


def test_what_does_nothing_is_doubted(spec: Callable[..., SweepSpec]) -> None:
    for changes, told in (
        ({}, []),
        ({"evaluate": {"top": 4, "tasks": ["sts"]}}, ["evaluate.top is 4", "3 configurations"]),
        ({"seeds": {"confirm": {"top": 9, "seeds": [0]}}}, ["seeds.confirm.top is 9"]),
        ({"fixed": {"max_steps": 1, "eval_steps": 2}}, ["eval_steps is 2", "max_steps, 1"]),
        ({"fixed": {"max_steps": 6, "eval_steps": 6}}, []),
        ({"fixed": {"max_steps": 125}, "space": {"epochs": [1, 2, 3]}}, ["epochs is"]),
        ({"fixed": {"precision": "fp16"}}, ["fp16", "ten times", "precision: auto"]),
        ({"fixed": {"batch_size": 10, "precision": "fp16"}, "resources": {"gpu": 0.5}}, []),
        (
            {"space": {"temperature": [0.05, 0.1]}},
            ["the space has 2 configurations, so at least 1 of 3 trials are further seeds", "grid"],
        ),
        ({"space": {"temperature": [0.05, 0.1, 0.2]}}, []),
        ({"space": {"temperature": {"low": 0.05, "high": 0.1}}}, []),
        (
            {"space": {"temperature": [0.05, 0.1]}, "search": {"sampler": "grid", "trials": 50}},
            ["search.trials is 50, and the grid ends after 2 trials", "seeds.confirm"],
        ),
        (
            {
                "space": {"temperature": {"low": 0.05, "high": 0.1}},
                "search": {
                    "trials": 1,
                    "start_from": [{"temperature": 0.05}, {"temperature": 0.1}],
                },
            },
            ["search.start_from has 2 points and search.trials is 1", "raise search.trials"],
        ),
        (
            {"evaluate": {"top": 1, "tasks": ["ranking", "stsb"]}},
            ["ranking gets no score", "built-in test sets stands in more than 3 pairs"],
        ),
        ({"evaluate": {"top": 1, "tasks": ["stsb"]}}, []),
        ({"pruner": {"kind": "median", "min_step": 9}}, []),
        ({"pruner": {"kind": "median", "min_step": 10}}, ["pruner.min_step is 10", "10 steps"]),
    ):
        sweep = spec(**changes)
        lines = doubts(sweep, sizes(sweep))
        assert len(lines) == bool(told), changes
        assert all(part in lines[0] for part in told), changes


def test_a_sweep_says_what_auto_became(spec: Callable[..., SweepSpec]) -> None:
    for gpu in (False, True):
        swept = spec(fixed={"precision": "auto"}, resources={"gpu": int(gpu)})
        assert swept.fixed == {"precision": auto_precision(gpu=gpu)}
        assert swept.config({}).hyperparameters()["precision"] == swept.fixed["precision"]


def test_folders_that_cannot_be_written(spec: Callable[..., SweepSpec], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "x"
    for changes, runs in (
        ({}, inside),
        ({"storage": str(inside)}, tmp_path / "runs"),
        ({"stores": {"search": f"sqlite:///{inside}.db"}}, tmp_path / "runs"),
    ):
        with pytest.raises(SweepRefusedError, match=str(tmp_path / "file")):
            refuse_unwritable(sweep_stores(spec(**changes), runs=runs))
    refuse_unwritable(sweep_stores(spec(), runs=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_what_links_lead_to_is_neither_read_nor_written(spec, tmp_path: Path) -> None:
    """Such a link may be a stranger's; where a sweep deletes nothing, checkpoints would stay."""
    scratch, name = tmp_path / "scratch", f"sweeps/{spec().sweep}"
    (scratch / "output").mkdir(parents=True)
    for link in ("sweeps", name, f"{name}/journal.jsonl", f"{name}/output/trial-0.txt.gz"):
        runs = tmp_path / link.replace("/", "-")
        (runs / link).parent.mkdir(parents=True)
        (runs / link).symlink_to(scratch)
        behind = runs / (name if link == "sweeps" else link)
        for storage in (None, str(tmp_path / "disk")):
            with pytest.raises(SweepRefusedError, match=f"{behind} is a link or behind one"):
                refuse_unwritable(sweep_stores(spec(storage=storage), runs=runs))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "artifacts").symlink_to(scratch)
    with pytest.raises(SweepRefusedError, match=f"to {scratch}.* storage: "):
        refuse_unwritable(sweep_stores(spec(), runs=tmp_path / "linked"))
    elsewhere = spec(storage=str(tmp_path / "disk"))
    refuse_unwritable(sweep_stores(elsewhere, runs=tmp_path / "linked"))
    (tmp_path / "runs").symlink_to(scratch)  # the user's own: it leads to the runs folder
    refuse_unwritable(sweep_stores(spec(), runs=tmp_path / "runs"))


def test_an_encoder_that_drops_nothing_out_is_doubted(spec, tmp_path) -> None:
    folder = shutil.copytree(Path(resolve_backbone("mini").model), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config | none))
    for fixed, told in (({}, True), ({"dropout": 0.1}, False)):
        sweep = spec(backbone=str(folder), fixed={"batch_size": 10, **fixed})
        lines = doubts(sweep, None)
        assert any("set dropout: 0.1" in line for line in lines) is told
    assert doubts(spec(), None) == []


def test_pairs_of_a_dev_set_in_a_test_set_are_doubted(spec, tmp_path) -> None:
    pairs = [f"a sentence {n}\tanother one {n}\t{n % 6}\n" for n in range(30)]
    own = {"mine": pairs[:20], "half": pairs[:20:2] + pairs[20:25], "fresh": pairs[20:]}
    for name, rows in own.items():
        (tmp_path / f"{name}.tsv").write_text("".join(rows))
    dev, half, fresh = (str(tmp_path / f"{name}.tsv") for name in own)
    sweep = spec(dev={"checkpoint": dev}, evaluate={"top": 1, "tasks": ["stsb", half, fresh]})
    said = [line for line in doubts(sweep, None) if "pairs of" in line]
    assert said == [
        "evaluate: 10 of the 15 pairs of half are in the file's own dev sets, and a test set must "
        "not guide training"
    ]
