"""The library's trainer behind the port: dev points, the best encoder, checkpoints, resuming.

What the library does of its own is left out: it reports and writes nothing, and no environment
variable changes its arithmetic.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.training_args import BatchSamplers
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerState
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
from transformers.trainer_callback import PrinterCallback

from cse_methods.contract import Run
from cse_methods.data.corpora import load_corpus
from cse_methods.data.dev_selection import dev_metric
from cse_methods.encoders.devices import computing_in, default_device, deterministic_algorithms
from cse_methods.encoders.library_encoder import LibraryEncoder
from cse_methods.encoders.reading import quiet
from cse_methods.errors import TrainingError
from cse_methods.sentence_transformers_trainer.datasets import WeightedBatchSampler, make_datasets
from cse_methods.sentence_transformers_trainer.lora import MergedTwin, add_adapter
from cse_methods.sentence_transformers_trainer.loss_modules import build_losses
from cse_methods.sentence_transformers_trainer.losses import LOSSES
from cse_methods.sentence_transformers_trainer.settings import StSettings
from cse_methods.sentence_transformers_trainer.student import load_student
from cse_methods.training.checkpoint import Best, SaveCheckpoint, fingerprint, read_checkpoint
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.divergence import DivergenceWatch
from cse_methods.training.schedule import Schedule

_ENVIRONMENT = "ACCELERATE_"
"""The beginning of the variables that would overwrite arguments, and that arguments set."""


def train_by_library(config: StSettings, run: Run) -> dict[str, float]:
    """Train the backbone of `config` on its corpora and keep what is best on dev.

    It reports, stops, returns and resumes as `cse_methods.train` does.

    Raises:
        TrainingError: if a corpus is smaller than a batch, the loss is not finite, or a GPU's
            memory is full.
        CheckpointError: if `run.resume_from` is not a complete checkpoint of this configuration.
        DataError: if labels are not what a loss reads.
    """
    arithmetic = config.arithmetic if config.arithmetic == "tf32" else "fp32"
    with (
        deterministic_algorithms(config.deterministic),
        computing_in(arithmetic, default_device()),
        _own_environment(),
        TemporaryDirectory(prefix="cse-st-") as folder,
        quiet(),
    ):
        try:
            return _train(config, run, Path(folder))
        except torch.OutOfMemoryError as problem:
            reason = str(problem).partition(". ")[0]
            raise TrainingError(
                f"the GPU's memory is full, with batch_size {config.batch_size}, max_length "
                f"{config.max_length} and precision {config.precision} ({reason}); take a cached "
                "loss, whose loss_mini_batch_size texts are encoded at once, or a smaller "
                "batch_size, or a larger resources.gpu, so that fewer trials share a GPU"
            ) from problem


class _Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """The library's trainer without a model card, for which it would encode texts."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        del default_args_dict


@contextmanager
def _own_environment() -> Iterator[None]:
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


def _train(config: StSettings, run: Run, folder: Path) -> dict[str, float]:
    torch.manual_seed(run.seed)
    corpus = load_corpus(config.corpus, config.data, backbone=config.backbone)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    sets = make_datasets(config, corpus)
    student = load_student(config)
    student.to(default_device())
    model, twin = student.model, None
    if config.lora is not None:
        twin = MergedTwin(model)
        add_adapter(model, config.lora, config.backbone)
    losses = build_losses(config, model, sets)
    port = _Port(config, run, schedule, student, twin, losses)

    is_one = len(sets) == 1
    trainer = _Trainer(
        model=model,
        args=_arguments(config, run.seed, schedule, student, folder),
        train_dataset=next(iter(sets.values())) if is_one else sets,
        loss=next(iter(losses.values())) if is_one else losses,
        callbacks=[port],
    )
    trainer.remove_callback(PrinterCallback)
    if run.resume_from is None:
        run.report(step=0, metrics=port.evaluate())
        trainer.train()
        return port.best.metrics
    stored = read_checkpoint(run.resume_from, fingerprint(config, run.seed), port.best)
    if port.is_over(stored["step"]):
        return port.best.metrics
    _write_library_checkpoint(stored, trainer, folder / "resumed")
    port.stored = stored
    trainer.train(resume_from_checkpoint=str(folder / "resumed"))
    return port.best.metrics


def _arguments(
    config: StSettings, seed: int, schedule: Schedule, student: LibraryEncoder, folder: Path
) -> SentenceTransformerTrainingArguments:
    """Make the trainer's arguments of a configuration."""
    weights = [corpus.weight for corpus in config.corpus if corpus.weight is not None]
    sampler = BatchSamplers.NO_DUPLICATES if config.no_duplicates else BatchSamplers.BATCH_SAMPLER
    if any(LOSSES[loss].by_label for loss in config.losses):
        sampler = BatchSamplers.GROUP_BY_LABEL
    mixed = {}
    if len(weights) > 1:
        mixed["multi_dataset_batch_sampler"] = partial(WeightedBatchSampler, weights=weights)
    prompts = student.model.prompts or {}
    rates = {"linear": "linear", "constant": "constant_with_warmup"}
    return SentenceTransformerTrainingArguments(
        output_dir=str(folder / "output"),
        seed=seed % 2**32,
        use_cpu=student.device.type == "cpu",
        max_steps=schedule.total,
        per_device_train_batch_size=config.batch_size,
        dataloader_drop_last=True,
        dataloader_pin_memory=student.device.type == "cuda",
        batch_sampler=sampler,
        learning_rate=config.learning_rate,
        lr_scheduler_type=rates[config.learning_rate_schedule],
        warmup_steps=schedule.warmup,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm or 0,
        adam_epsilon=config.optimizer_epsilon or 1e-8,
        bf16=config.precision == "bf16",
        prompts=prompts.get(student.model.default_prompt_name) or None,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # the port watches the loss, without waiting for a GPU
        **mixed,
    )


class _Port(TrainerCallback):  # type: ignore[misc]
    """Evaluates, reports and keeps the best encoder at each dev point of the trainer."""

    def __init__(
        self,
        config: StSettings,
        run: Run,
        schedule: Schedule,
        student: LibraryEncoder,
        twin: MergedTwin | None,
        losses: Mapping[str, nn.Module],
    ) -> None:
        self.config, self.run, self.schedule = config, run, schedule
        self.student, self.twin = student, twin
        self.dev = DevSuite(
            config.dev,
            data=config.data,
            arithmetic=config.arithmetic,
            widths=config.matryoshka or (),
        )
        self.best = Best(dev_metric(config.dev.checkpoint_name))
        self.stored: dict[str, Any] | None = None
        """The checkpoint that the trainer goes on from."""
        self._modules = nn.ModuleDict({"model": student.model, "losses": nn.ModuleDict(losses)})
        self._watch = DivergenceWatch(config, schedule)
        self._step, self._first = 0, 0
        self._sums: dict[str, Tensor] = {}
        self._started = time.perf_counter()
        for module, loss in zip(losses.values(), config.losses, strict=False):
            module.register_forward_hook(partial(self._record_loss, loss))

    def _record_loss(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Add the parts of a step's loss to the sums. TrainingError if the loss has diverged."""
        del module, inputs
        parts = {name: output} if isinstance(output, Tensor) else output
        for part, value in parts.items():
            label, value = part if part == name else f"{name}_{part}", value.detach()
            self._sums[label] = self._sums[label] + value if label in self._sums else value
        self._watch.add(self._step, (part.detach() for part in parts.values()))

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if self.stored is not None:
            tensors = _trained_tensors(self._modules)
            with torch.no_grad():
                for name, tensor in tensors.items():
                    tensor.copy_(self.stored["trained"][name])
        self._begin_interval(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._step = state.global_step + 1

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        step = state.global_step
        if step % self.config.eval_steps and step < self.schedule.total:
            return
        metrics = self._training_metrics(step) | self.evaluate()
        encoder = self.student if self.twin is None else LibraryEncoder(self.twin.model)
        self.best.consider(step, metrics, encoder)
        last = self.is_over(step)
        gather = partial(self._gather, state, others["optimizer"], others["lr_scheduler"])
        self.run.report(
            step=step, metrics=metrics, save=SaveCheckpoint(gather, self.best, last=last)
        )
        control.should_training_stop = last
        self._begin_interval(step)

    def is_over(self, step: int) -> bool:
        """Whether no step is left, or `patience` dev points have passed since the best."""
        since_best = math.ceil((step - self.best.step) / self.config.eval_steps)
        patience = self.config.patience
        return step >= self.schedule.total or (patience is not None and since_best >= patience)

    def evaluate(self) -> dict[str, float]:
        """Score the encoder as it is kept, on all dev sets."""
        model = self.student.model
        if self.twin is not None:
            self.twin.update(model)
        encoder = self.student if self.twin is None else LibraryEncoder(self.twin.model)
        training = model.training
        model.eval()
        metrics = self.dev.evaluate(encoder)
        model.train(training)
        return metrics

    def _begin_interval(self, step: int) -> None:
        self.student.model.max_seq_length = self.config.max_length
        self._first, self._sums, self._started = step, {}, time.perf_counter()

    def _training_metrics(self, step: int) -> dict[str, float]:
        self._watch.finish()
        steps = step - self._first
        totals = torch.stack(list(self._sums.values())).tolist()
        parts = {name: total / steps for name, total in zip(self._sums, totals, strict=True)}
        seconds = time.perf_counter() - self._started
        factor = self.schedule.learning_rate_factor(step - 1)
        return {
            "train/loss": sum(parts.values()),
            **{f"train/loss_{name}": value for name, value in parts.items()},
            "train/learning_rate": self.config.learning_rate * factor,
            "train/progress": step / self.schedule.total,
            "perf/sentences_per_second": steps * self.config.batch_size / seconds,
        }

    def _gather(self, state: Any, optimizer: Any, scheduler: Any) -> dict[str, Any]:
        return {
            "fingerprint": fingerprint(self.config, self.run.seed),
            "trained": _trained_tensors(self._modules),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "step": state.global_step,
            "epoch": state.epoch,
        }


def _trained_tensors(modules: nn.Module) -> dict[str, Tensor]:
    """Collect the tensors that training changes, those of the losses' own too, each once.

    They are told apart by identity, because a loss holds the model, and may hold a copy of it.
    """
    tensors, seen = dict[str, Tensor](), set[int]()
    for name, tensor in modules.state_dict(keep_vars=True).items():
        is_frozen = isinstance(tensor, nn.Parameter) and not tensor.requires_grad
        if id(tensor) not in seen and not is_frozen:
            seen.add(id(tensor))
            tensors[name] = tensor.detach()
    return tensors


def _write_library_checkpoint(
    stored: Mapping[str, Any], trainer: SentenceTransformerTrainer, folder: Path
) -> None:
    """Write what the library resumes from; the model in it is overwritten at the first step."""
    trainer.model.save_pretrained(str(folder), create_model_card=False)
    state = TrainerState(
        epoch=stored["epoch"],
        global_step=stored["step"],
        max_steps=trainer.args.max_steps,
        train_batch_size=trainer.args.train_batch_size,
    )
    state.save_to_json(str(folder / TRAINER_STATE_NAME))
    torch.save(stored["optimizer"], folder / OPTIMIZER_NAME)
    torch.save(stored["scheduler"], folder / SCHEDULER_NAME)
    random = {"python": stored["python_rng"], "numpy": stored["numpy_rng"], "cpu": stored["rng"]}
    cuda = stored["cuda_rng"]
    torch.save(random | ({"cuda": cuda[0]} if cuda else {}), folder / "rng_state.pth")
