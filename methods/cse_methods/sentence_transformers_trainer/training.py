"""Trains a configuration of the method `st`.

What the library does of its own is left out: it reports and writes nothing, and no environment
variable changes its arithmetic.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import DatasetDict
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from transformers.trainer_callback import PrinterCallback

from cse_methods.contract import Run
from cse_methods.data.corpora import load_corpus
from cse_methods.encoders.devices import (
    computing_in,
    default_device,
    deterministic_algorithms,
    memory_advice,
)
from cse_methods.encoders.library_encoder import LibraryEncoder
from cse_methods.encoders.reading import quiet
from cse_methods.errors import TrainingError
from cse_methods.precision import Arithmetic
from cse_methods.sentence_transformers_trainer.datasets import (
    WeightedBatchSampler,
    make_batches,
    make_datasets,
)
from cse_methods.sentence_transformers_trainer.lora import MergedTwin, add_adapter
from cse_methods.sentence_transformers_trainer.loss_modules import build_losses
from cse_methods.sentence_transformers_trainer.port import report_to_cse
from cse_methods.sentence_transformers_trainer.settings import StSettings
from cse_methods.sentence_transformers_trainer.student import load_student
from cse_methods.training.schedule import Schedule

_ENVIRONMENT = "ACCELERATE_"
"""The beginning of the variables that would overwrite arguments, and that arguments set."""


def train_by_library(config: StSettings, run: Run) -> dict[str, float]:
    """Train the backbone of `config` on its corpora and keep what is best on dev.

    It reports, stops, returns and resumes as `cse_methods.train` does.

    Raises:
        TrainingError: if a corpus is smaller than a batch, the loss is not finite, a GPU's memory
            is full, or there are several GPUs.
        BackboneError: if the backbone cannot be loaded with these settings.
        CheckpointError: if `run.resume_from` is not a complete checkpoint of this configuration.
        DataError: if labels are not what a loss reads.
    """
    if (gpus := torch.cuda.device_count()) > 1:  # the library would split each batch among them
        raise TrainingError(
            f"st trains on one GPU, and this trial has {gpus}; set resources.gpu: 1"
        )
    doing = (
        f"it trains with batch_size {config.batch_size}, max_length {config.max_length} and "
        f"precision {config.precision}"
    )
    way_out = (
        "take a cached loss, whose loss_mini_batch_size texts are encoded at once, or a smaller "
        "batch_size"
    )
    arithmetic = config.arithmetic if config.arithmetic == "tf32" else "fp32"
    with (
        deterministic_algorithms(config.deterministic),
        computing_in(arithmetic, default_device()),
        _accelerate_variables_hidden(),
        TemporaryDirectory(prefix="cse-st-") as folder,
        quiet(),
        memory_advice(doing, way_out, TrainingError),
    ):
        return _train_student(config, run, Path(folder))


class _Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """The library's trainer without a model card, for which it would encode texts."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        del default_args_dict


@contextmanager
def _accelerate_variables_hidden() -> Iterator[None]:
    """Hide the environment's settings of accelerate, and restore them afterwards."""
    before = {name: os.environ[name] for name in os.environ if name.startswith(_ENVIRONMENT)}

    def clear() -> None:
        for name in [name for name in os.environ if name.startswith(_ENVIRONMENT)]:
            del os.environ[name]

    clear()
    try:
        yield
    finally:
        clear()
        os.environ.update(before)


def _train_student(config: StSettings, run: Run, folder: Path) -> dict[str, float]:
    torch.manual_seed(run.seed)
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    sets = make_datasets(config, corpus)
    student = load_student(config)
    student.to(default_device())
    config.check_width(student.width)
    model, at_test = student.model, lambda: student
    if config.lora is not None:
        twin = MergedTwin(student)
        add_adapter(model, config.lora, config.backbone)
        at_test = partial(twin.updated, model)
    losses = build_losses(config, model, sets)
    if config.arithmetic == "tf32":  # which rounds too much for what losses compare
        model.forward = _make_forward_in("tf32", model.forward)
        for loss in losses.values():
            loss.forward = _make_forward_in("fp32", loss.forward)
    arguments = _make_arguments(config, run.seed, schedule, student, sets, folder)
    model.max_seq_length = config.max_length
    trainer = _Trainer(model=model, args=arguments, train_dataset=sets, loss=losses)
    trainer.remove_callback(PrinterCallback)
    return report_to_cse(trainer, config, run, at_test=at_test, widths=config.dev_widths)


def _make_forward_in(arithmetic: Arithmetic, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a forward pass that multiplies in the given arithmetic."""

    @wraps(forward)
    def computed(*arguments: Any, **others: Any) -> Any:
        with computing_in(arithmetic, default_device()):
            return forward(*arguments, **others)

    return computed


def _choose_prompts(
    config: StSettings, model: SentenceTransformer, sets: DatasetDict
) -> dict[str, dict[str, str]]:
    """Choose the text before each text in training, by set and column: the corpus's own, else the
    model's.
    """
    prompts = dict[str, dict[str, str]]()
    for (name, dataset), corpus in zip(sets.items(), config.corpus, strict=False):
        texts = [column for column in dataset.column_names if column != "label"]
        of_columns = corpus.prompt
        if of_columns is None:
            of_columns = model.prompts.get(model.default_prompt_name, "")
        if isinstance(of_columns, str):
            of_columns = (of_columns,) * len(texts)
        prompts[name] = dict(zip(texts, of_columns, strict=True))
    return prompts


def _make_arguments(
    config: StSettings,
    seed: int,
    schedule: Schedule,
    student: LibraryEncoder,
    sets: DatasetDict,
    folder: Path,
) -> SentenceTransformerTrainingArguments:
    """Make the trainer's arguments of a configuration."""
    weights = [corpus.weight for corpus in config.corpus if corpus.weight is not None]
    mixed = {}
    if len(weights) > 1:
        mixed["multi_dataset_batch_sampler"] = partial(WeightedBatchSampler, weights=weights)
    rates = {"linear": "linear", "constant": "constant_with_warmup"}
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder / "output"),
        seed=seed % 2**32,
        use_cpu=student.device.type == "cpu",
        max_steps=schedule.total,
        per_device_train_batch_size=config.batch_size,
        dataloader_drop_last=True,
        dataloader_pin_memory=student.device.type == "cuda",
        batch_sampler=partial(make_batches, no_duplicates=config.no_duplicates),
        learning_rate=config.learning_rate,
        lr_scheduler_type=rates[config.learning_rate_schedule],
        warmup_steps=schedule.warmup,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm or 0,
        adam_epsilon=config.optimizer_epsilon or 1e-8,
        bf16=config.precision == "bf16",
        prompts=_choose_prompts(config, student.model, sets),
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # the port watches the loss, without waiting for a GPU
        **mixed,
    )
