"""The method `st`: sentence-transformers' trainer behind the port."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from device_ledger import device_ledger
from failing import failing
from labelled_rows import write_rows
from method_variants import write_lab
from outside_methods import keep_registry
from pydantic import ValidationError
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer import losses as library_losses
from sentence_transformers.sentence_transformer.modules import Transformer
from tiny_families import LIBRARY_FAMILIES, TEXTS, save_tiny, save_tiny_of_library
from torch.utils.data import ConcatDataset

from cse_methods.contract import BEST_FOLDER, Paper, Run
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.loading import load_sentence_encoder
from cse_methods.errors import DataError, DivergenceError, TrainingError
from cse_methods.registry import get_method, register
from cse_methods.sentence_transformers_trainer import library
from cse_methods.sentence_transformers_trainer.datasets import WeightedBatchSampler, make_datasets
from cse_methods.sentence_transformers_trainer.losses import LOSSES, settings_of
from cse_methods.sentence_transformers_trainer.port import report_to_cse
from cse_methods.sentence_transformers_trainer.settings import LibraryConfig, StConfig, StSettings
from cse_methods.testing import (
    CHECKS,
    RecordedRun,
    TrainedOnce,
    differs_with_another_seed,
    repeats_with_one_seed,
    train_once,
)

FAMILIES = (*LIBRARY_FAMILIES, "modernbert", "mpnet")
LORA = {"rank": 4, "dropout": 0.1}
TWO_STEPS = {"max_steps": 2, "eval_steps": 1, "warmup_ratio": 0.0}
OF_ONE_SEED = [c for c in CHECKS if c not in (repeats_with_one_seed, differs_with_another_seed)]
"""What is resumed repeats the curve already."""
Train = Callable[..., TrainedOnce]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Callable[[str], Path]:
    """Saves a random encoder of a family, once."""
    root = tmp_path_factory.mktemp("families")

    def save(family: str) -> Path:
        folder: Path = root / family
        if not folder.is_dir():
            saved = save_tiny_of_library if family in LIBRARY_FAMILIES else save_tiny
            saved(family, folder)
        return folder

    return save


@pytest.fixture(scope="module")
def train(tmp_path_factory, tiny) -> Iterator[Train]:
    def train(family: str, **settings: Any) -> TrainedOnce:
        folder = tmp_path_factory.mktemp("st")
        lab, _ = write_lab(folder, tiny(family), tiny(family))
        return train_once("st", lab | settings, folder=folder / "run")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield train


def configured(**settings: Any) -> StSettings:
    return StConfig.model_validate({"backbone": "lab/encoder", "corpus": "builtin"} | settings)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [None, LORA], ids=["whole", "lora"])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_passes_the_checks(family: str, lora: Any, train: Train) -> None:
    pooler = "lasttoken" if family == "qwen3" else None
    trained = train(family, lora=lora, pooler=pooler)
    assert failing(lambda check: check(trained), CHECKS) == {}


def test_a_decoder_with_lora_at_several_widths_passes_the_checks(
    train: Train, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "pooler": "lasttoken", "lora": LORA, "matryoshka": [32, 8], "prompt": "the nurse : ",
        "loss": "cached_multiple_negatives", "loss_mini_batch_size": 3, "max_length": 40,
    }  # fmt: skip
    trained = train("qwen3", **settings, **TWO_STEPS)
    assert failing(lambda check: check(trained), OF_ONE_SEED) == {}
    best = trained.run.folder / "2" / BEST_FOLDER
    shutil.move(trained.config.backbone, tmp_path / "moved")  # the kept model needs no base
    try:
        kept = SentenceTransformer(str(best), device="cpu")
        assert not list(best.rglob("adapter*"))
        assert kept.prompts[kept.default_prompt_name] == "the nurse : "
        vectors = torch.as_tensor(kept.encode(TEXTS, show_progress_bar=False))
        found = load_sentence_encoder(str(best)).encode(TEXTS)
        torch.testing.assert_close(found, vectors)
    finally:
        shutil.move(tmp_path / "moved", trained.config.backbone)
    point = trained.run.curve[2]
    task = trained.config.dev.checkpoint_name
    assert point[f"dev/{task}_spearman_width_32"] == point[f"dev/{task}_spearman"]
    assert point[f"dev/{task}_spearman_width_8"] != point[f"dev/{task}_spearman"]
    state = torch.load(trained.run.folder / "2" / "training.pt", weights_only=True)["trained"]
    assert state.keys() and all(".lora_" in name for name in state)


def test_settings_of_losses_are_those_of_the_library_s_signatures() -> None:
    """Read without importing it; here by Python's own means."""
    wrong, left_out = {}, {"show_progress_bar", "gather_across_devices"}
    for loss, rows in LOSSES.items():
        parameters = inspect.signature(getattr(library_losses, rows.library_class)).parameters
        defaults = {name: p.default for name, p in parameters.items() if name not in left_out}
        scalars = {n: d for n, d in defaults.items() if isinstance(d, int | float | str | tuple)}
        found = settings_of(loss)
        found |= {name: scalars[name] for name in rows.fixed}
        if not scalars.items() <= found.items() <= defaults.items():
            wrong[loss] = found, defaults
    assert wrong == {}
    assert settings_of("multiple_negatives")["scale"] == 20
    assert [settings_of(loss)["margin"] for loss in ("contrastive", "gist", "batch_all_triplet")] \
        == [0.5, 0, 5]  # fmt: skip


PAIRS = {"name": "a.csv", "columns": ["a", "b"]}
SCORED = PAIRS | {"label": "score"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"loss": "multiple_negative"}, "multiple_negatives"),
        ({"loss": "cosent", "corpus": PAIRS}, "needs 2 texts a row and a label that is a number"),
        ({"loss": "triplet", "corpus": PAIRS}, "2 texts a row and no label, but loss triplet"),
        ({"loss": "triplet"}, "1 text a row"),
        ({"loss": "batch_all_triplet", "corpus": SCORED}, "1 text a row and a label that is a cla"),
        ({"loss_scale": 0}, "greater than 0"),
        ({"loss_temperature": 0.1}, "no effect with loss: multiple_negatives"),
        ({"loss": "gist", "corpus": PAIRS}, "read another encoder; name it, guide"),
        ({"guide": "mini"}, "guide=mini has no effect"),
        ({"head": True}, "False"),
        ({"gradient_accumulation": 2}, "1"),
        ({"precision": "fp16"}, "bf16"),
        ({"corpus": [PAIRS | {"weight": 1}, PAIRS | {"name": "b.csv"}]}, "every corpus has a weig"),
        ({"corpus": [PAIRS | {"loss": "cosine"}]}, "There are: multiple_negatives,"),
        ({"matryoshka": [0]}, "greater than or equal to 1"),
        ({"matryoshka": [8], "matryoshka_dims_per_step": 1}, "1 of the 1 widths"),
        ({"matryoshka_dims_per_step": 1}, "1 of the 0 widths"),
        ({"corpus": PAIRS | {"prompt": ["a", "b", "c"]}}, "got 3 for 2"),
        ({"lora": {"rank": 0}}, "greater than or equal to 1"),
        ({"batch_size": 6, "loss": "batch_all_triplet", "corpus": {"name": "a.csv", "column": "a",
          "label": "c"}, "max_length": 8, "dropout": 2}, "less than 1"),
        ({"batch_size": 3, "loss": "batch_all_triplet", "corpus": {"name": "a.csv", "column": "a",
          "label": "c"}}, "an even number from 4 on"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_trained_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        configured(**settings)


def test_layers_that_the_backbone_lacks_get_no_lora() -> None:
    configured(backbone="mini", lora={"target_modules": ["query", "self.value"]}).check_encoders()
    config = configured(backbone="mini", lora={"target_modules": ["query", "q_proj"]})
    with pytest.raises(TrainingError, match=r"'q_proj', and no layer .* mini .* dense, key"):
        config.check_encoders()


def test_other_methods_refuse_labels_losses_and_weights() -> None:
    settings = {"backbone": "mini", "corpus": {"name": "a.csv", "column": "a"}}
    for key, value in (("label", "b"), ("loss", "cosent"), ("weight", 2), ("prompt", "q")):
        corpus = settings["corpus"] | {key: value}  # type: ignore[operator]
        with pytest.raises(ValidationError, match=rf"a\.csv has {key}: {value}"):
            get_method("simcse").config.model_validate(settings | {"corpus": corpus})
    labelled = {"name": "a.csv", "column": "a", "label": "b", "split_at": 8}
    with pytest.raises(ValidationError, match="this corpus has labels"):
        configured(corpus=labelled, loss="batch_all_triplet")


def test_settings_apply_to_the_loss_of_any_corpus() -> None:
    """CoSENT's scale, where the main loss has none."""
    corpus = [PAIRS | {"weight": 1}, SCORED | {"loss": "cosent", "weight": 2}]
    config = configured(corpus=corpus, loss="cached_gist", guide="mini", loss_scale=30)
    assert config.loss_settings("cosent") == {"scale": 30}
    assert config.loss_settings("cached_gist") == {}
    assert config.hyperparameters()["loss_scale"] == 30
    assert config.encoders() == ("lab/encoder", "mini")


def test_a_key_changes_with_the_library_and_the_sets(tmp_path: Path, monkeypatch) -> None:
    before = configured().ingredients()
    assert before["sentence-transformers"].startswith("6.")
    copied = tmp_path / "sentence_transformers"
    shutil.copytree(library.sources(), copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(library, "sources", lambda: copied)
    assert configured().ingredients() == before
    file = copied / "sentence_transformer" / "losses" / "cosent.py"
    file.write_text(file.read_text().replace("scale: float = 20.0", "scale: float = 21.0"))
    assert configured().ingredients() != before
    monkeypatch.undo()
    monkeypatch.setattr(library, "version", lambda name: "0")
    assert configured().ingredients() != before
    monkeypatch.undo()
    trained_on = [{"weight": 1}, {"weight": 2}, {"weight": 1, "prompt": ["query: ", ""]}]
    sets = [[SCORED | {"loss": "cosent"} | one, PAIRS | {"weight": 1}] for one in trained_on]
    keys = [configured(corpus=corpus).ingredients()["sets"] for corpus in sets]
    assert len(set(keys)) == len(sets)


def test_reading_settings_does_not_import_the_library(tmp_path: Path) -> None:
    code = (
        "import sys; from cse_methods.registry import get_method; "
        "config = get_method('st').config.model_validate({'backbone': 'mini', 'corpus': 'builtin'})"
        "; config.ingredients(); assert 'sentence_transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_the_environment_changes_nothing_and_nothing_is_left(
    train: Train, tmp_path: Path, monkeypatch, capfd
) -> None:
    settings = {"max_steps": 2, "eval_steps": 2}
    plain = train("modernbert", **settings)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    again = plain.again("elsewhere")
    assert again.curve == plain.run.curve
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "bf16"
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")  # no progress bar, no log
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in left if "/cse-best-" not in str(path)] == []


def test_bf16_changes_scores_less_than_another_seed(train: Train) -> None:
    settings: dict[str, Any] = {"max_steps": 4, "eval_steps": 4, "learning_rate": 1e-3}
    trained = train("mpnet", **settings)
    seeds = [trained.run, *(trained.again(f"seed-{seed}", seed=seed) for seed in (2, 3))]
    half = train("mpnet", precision="bf16", **settings).run
    assert half.curve[4] != trained.run.curve[4]
    for name in ("dev/alignment", "dev/uniformity"):  # a correlation of few pairs moves in steps
        values = [run.curve[4][name] for run in seeds]
        assert abs(half.curve[4][name] - values[0]) < max(values) - min(values), name


def test_batches_are_drawn_by_weight_and_from_one_set_each(tmp_path: Path) -> None:
    corpora = [
        write_rows(tmp_path, "cosent") | {"loss": "cosent", "weight": 3},
        write_rows(tmp_path, "multiple_negatives") | {"weight": 1},
    ]
    config = configured(corpus=corpora, batch_size=4)
    corpus = load_corpus(config.corpus, "builtin")
    assert [len(part.sentences) for part in corpus.parts] == [20, 20]
    assert corpus.parts[0].labels[:3] == (0, 0.2, 0.4)
    unlabelled = corpora[0] | {"label": None, "loss": None}
    others = configured(corpus=[unlabelled, corpora[1]]).corpus
    assert load_corpus(others, "builtin").sha256 != corpus.sha256
    sets = make_datasets(config, corpus)
    assert list(sets) == ["cosent_1", "multiple_negatives_2"]
    assert sets["cosent_1"].column_names == ["text1", "text2", "label"]

    class Rows:
        """Batches of four rows, in order."""

        batch_size, drop_last = 4, True

        def __iter__(self) -> Iterator[list[int]]:
            return iter([list(range(n, n + 4)) for n in range(0, 20, 4)])

        def __len__(self) -> int:
            return 5

    sampler = WeightedBatchSampler(
        ConcatDataset(list(sets.values())), [Rows(), Rows()],
        generator=torch.Generator(), seed=0, weights=[3.0, 1.0],
    )  # fmt: skip
    drawn, epochs = Counter[int](), []
    for epoch in range(200):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
        assert len(epochs[-1]) == len(sampler) == 10
        for batch in epochs[-1]:
            numbers = {row // 20 for row in batch}
            assert len(numbers) == 1
            drawn.update(numbers)
    assert drawn[0] / drawn.total() == pytest.approx(3 / 4, abs=0.04)
    assert epochs[0] != epochs[1]
    sampler.set_epoch(1)
    assert list(sampler) == epochs[1]


def test_each_column_of_a_set_has_its_prompt_in_training(train: Train, tmp_path: Path) -> None:
    """Beside a set with that of the method: as if the prompts stood in the files."""
    other = write_rows(tmp_path, "cosent") | {"loss": "cosent"}

    def mean_loss(prefixes: tuple[str, str], **settings: Any) -> float:
        file = tmp_path / f"{bool(settings)}.jsonl"
        rows = [
            {c: p + t for c, p, t in zip("ab", prefixes, pair, strict=True)}
            for pair in pairwise(TEXTS)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpus = [{"name": str(file), "columns": ["a", "b"], **settings}, other]
        steps = {"max_steps": 4, "eval_steps": 4, "batch_size": 4, "no_duplicates": False}
        return train("mpnet", corpus=corpus, **steps).run.curve[4]["train/loss"]

    in_files, plain = mean_loss(("the nurse : ", "a pilot : ")), mean_loss(("", ""))
    assert mean_loss(("", ""), prompt=["the nurse : ", "a pilot : "]) == in_files != plain


def test_labels_that_a_loss_does_not_read_are_refused(tmp_path: Path) -> None:
    scored = write_rows(tmp_path, "cosent")
    for settings, error, text in (
        ({"loss": "contrastive"}, DataError, "row 2: label 0.2, and loss contrastive reads a cla"),
        ({"loss": "cosent", "batch_size": 21}, TrainingError, "more than the 20 rows of corpus"),
    ):
        config = configured(**{"corpus": scored, "batch_size": 4} | settings)
        with pytest.raises(error, match=text):
            config.check_data(load_corpus(config.corpus, "builtin"))
    (tmp_path / "c.csv").write_text("a,c\nOne.,0\nTwo.,0\nThree.,1\nFour.,2\n")
    rare = {"name": str(tmp_path / "c.csv"), "column": "a", "label": "c"}
    config = configured(corpus=rare, loss="batch_all_triplet", batch_size=4)
    with pytest.raises(DataError, match="fewer than two classes have two texts"):
        config.check_data(load_corpus(config.corpus, "builtin"))
    (tmp_path / "a.csv").write_text("a,b,s\nOne.,Two.,high\n")
    odd = {"name": str(tmp_path / "a.csv"), "columns": ["a", "b"], "label": "s"}
    with pytest.raises(DataError, match=r"line 2: label 's' is 'high'; expected a number"):
        load_corpus(configured(corpus=odd, loss="cosent").corpus, "builtin")


def train_by_script(
    config: LibraryConfig, run: Run, dtype: Any = "auto", max_steps: int | None = None
) -> dict[str, float]:
    """A plain script of the library, but for its last line."""
    model = SentenceTransformer(config.backbone, device="cpu", model_kwargs={"dtype": dtype})
    rows = {"a": TEXTS * 4, "b": TEXTS[::-1] * 4, "score": [n % 5 / 4 for n in range(24)]}
    arguments = SentenceTransformerTrainingArguments(
        str(run.resume_from or "unused"), seed=run.seed, max_steps=max_steps or config.max_steps,
        learning_rate=config.learning_rate, per_device_train_batch_size=config.batch_size,
        report_to="none", save_strategy="no", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=Dataset.from_dict(rows),
        loss=library_losses.CoSENTLoss(model),
    )  # fmt: skip
    return report_to_cse(trainer, config, run)


def test_a_plain_script_passes_the_checks(tiny, tmp_path: Path, monkeypatch) -> None:
    keep_registry(monkeypatch)
    monkeypatch.chdir(tmp_path)
    paper = Paper("A script", "https://example.org", 2026)
    register("script", config=LibraryConfig, paper=paper, revision=1)(train_by_script)
    lab, _ = write_lab(tmp_path, tiny("mpnet"), tiny("mpnet"))
    trained = train_once("script", lab | TWO_STEPS, folder=tmp_path / "run")
    assert failing(lambda check: check(trained), OF_ONE_SEED) == {}


def test_a_script_that_trains_other_than_recorded_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    mini = str(files("cse_methods") / "mini")  # its folder has float16
    config = LibraryConfig(backbone=mini, corpus="builtin", data="builtin", **TWO_STEPS)
    for dtype, max_steps, text in (
        ("auto", 2, r"is trained in float16, .* model_kwargs=\{\"dtype\": torch.float32\}"),
        (torch.bfloat16, 2, "is trained in bfloat16"),
        (torch.float32, 3, "the trainer has max_steps 3, and the settings have 2"),
    ):
        run = RecordedRun(tmp_path, 1)
        with pytest.raises(TrainingError, match=text):
            train_by_script(config, run, dtype, max_steps)
        assert run.curve == {}


def waits_of_two_steps(train_on_gpu: Callable[[int], object]) -> int:
    """How often the host waits more in four steps than in two."""
    counted = []
    for steps in (2, 4):
        with device_ledger() as ledger:
            train_on_gpu(steps)
        counted.append(ledger.waits.total())
    return counted[1] - counted[0]


def test_a_step_makes_the_host_wait_for_a_gpu_no_more_than_the_library_s_own_loop(
    train: Train, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    trained = train("modernbert", max_steps=1, eval_steps=1)

    def train_here(steps: int) -> None:
        changed = trained.config.model_dump() | {"max_steps": steps, "eval_steps": steps}
        config, run = StConfig.model_validate(changed), RecordedRun(tmp_path / str(steps), 1)
        trained.method.train(config, run)
        assert list(run.curve) == [0, steps]

    def train_there(steps: int) -> None:
        model = SentenceTransformer(trained.config.backbone, device="cuda")
        arguments = SentenceTransformerTrainingArguments(
            str(tmp_path / "there"), max_steps=steps, per_device_train_batch_size=16,
            report_to="none", save_strategy="no", disable_tqdm=True,
            logging_nan_inf_filter=False,  # which alone makes two waits a step
        )  # fmt: skip
        rows = Dataset.from_dict({"a": TEXTS * 12, "b": TEXTS * 12})
        loss = library_losses.MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model, arguments, train_dataset=rows, loss=loss).train()

    assert waits_of_two_steps(train_here) <= waits_of_two_steps(train_there)


def test_a_diverged_loss_on_a_gpu_is_told_with_its_step_and_without_waits(
    train: Train, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    trained = train("mpnet", max_steps=1, eval_steps=1)
    diverging = {"learning_rate": 1e30, "warmup_ratio": 0.0, "max_grad_norm": None}
    changed = trained.config.model_dump() | diverging | {"max_steps": 40, "eval_steps": 40}
    with (
        device_ledger() as ledger,
        pytest.raises(DivergenceError, match=r"the loss is (nan|inf) at step [234], first in"),
    ):
        trained.method.train(StConfig.model_validate(changed), RecordedRun(tmp_path, 1))
    assert not [wait for wait in ledger.waits if "_record_loss" in wait.functions]


@pytest.mark.parametrize("matryoshka", [None, (32, 16)])
def test_on_a_gpu_encoders_multiply_in_tf32_and_losses_in_float32(
    matryoshka: Any, train: Train, tiny, monkeypatch
) -> None:
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    found = Counter[str]()

    def watch(owner: Any, function: str, name: str) -> None:
        original = getattr(owner, function)

        def watched(*arguments: Any, **others: Any) -> Any:
            found[f"{name} in {torch.backends.cuda.matmul.fp32_precision}"] += (
                torch.is_grad_enabled()
            )
            return original(*arguments, **others)

        monkeypatch.setattr(owner, function, watched)

    watch(Transformer, "forward", "encoder")
    watch(library_losses.MultipleNegativesRankingLoss, "compute_loss_from_embeddings", "loss")
    watch(torch.Tensor, "backward", "back")
    tiny("mpnet")
    with device_ledger():
        train("mpnet", max_steps=1, eval_steps=1, matryoshka=matryoshka)
    assert set(found) == {"encoder in tf32", "loss in ieee", "back in tf32"}
    assert torch.backends.cuda.matmul.fp32_precision == "none"


def test_a_checkpoint_goes_on_where_there_is_a_gpu_and_where_there_is_none(
    train: Train, monkeypatch
) -> None:
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    trained = train("qwen3", lora={"rank": 4}, pooler="lasttoken", **TWO_STEPS)
    with device_ledger():
        whole = trained.again("gpu")
        there = trained.again("there", resume_from=trained.run.folder / "1")
    back = trained.again("back", resume_from=whole.folder / "1")
    for run in (whole, there, back):
        assert run.curve[2] == pytest.approx(trained.run.curve[2], rel=1e-4)
