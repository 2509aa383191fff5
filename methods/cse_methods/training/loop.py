"""The training loop; methods differ only in the objective that they pass to it."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from cse_methods.allocator import keep_freed_memory
from cse_methods.config import TrainingConfig
from cse_methods.contract import Paper, PublishedSettings, Run
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus import Corpus
from cse_methods.data.dev_selection import dev_metric
from cse_methods.encoders.devices import (
    computing_in,
    default_device,
    deterministic_algorithms,
    memory_advice,
)
from cse_methods.encoders.encoder import Encoder
from cse_methods.errors import TrainingError
from cse_methods.registry import enter_method
from cse_methods.training.checkpoint import (
    Best,
    SaveCheckpoint,
    TrainingState,
    gather_state,
    load_checkpoint,
)
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.modifiers import modify_loss
from cse_methods.training.objective import Objective
from cse_methods.training.optimizers import grouped_parameters, make_optimizer
from cse_methods.training.schedule import Schedule
from cse_methods.training.student import Batch, Student
from cse_methods.training.tokenized_corpus import TokenizedCorpus

Config = TypeVar("Config", bound=TrainingConfig)
Built = TypeVar("Built", bound=Objective)
Build = Callable[[Config, Corpus, Student], Built]
"""Builds the objective from (config, corpus, student)."""

_WORTH_KEEPING = 0.1
"""The tokenized corpus is cached if a trial reads at least this fraction of it."""


def register_objective(
    name: str,
    *,
    config: type[Config],
    revision: int,
    paper: Paper | None = None,
    published: Sequence[PublishedSettings] = (),
) -> Callable[[Build[Config, Built]], Build[Config, Built]]:
    """Register a method that trains the objective which the decorated function builds.

    The function is called as `build(config, corpus, student)`, once per trial: with the settings,
    the corpus that they name, and the student on its device. The arguments of the decorator and its
    errors are those of `register`.
    """

    def enter(build: Build[Config, Built]) -> Build[Config, Built]:
        @wraps(build)
        def train_objective(settings: Config, run: Run) -> dict[str, float]:
            corpus = load_corpus(settings.corpus, settings.data, backbone=settings.backbone)
            return train(settings, run, corpus=corpus, objective=partial(build, settings, corpus))

        enter_method(
            name,
            config,
            train_objective,
            paper=paper,
            revision=revision,
            published=published,
            build=build,
        )
        return build

    return enter


def train(
    config: TrainingConfig, run: Run, *, corpus: Corpus, objective: Callable[[Student], Objective]
) -> dict[str, float]:
    """Train the backbone of `config` on `corpus` and keep the checkpoint that is best on dev.

    Reports to `run` at step 0 (the untrained backbone), every `eval_steps` and at the last step;
    training stops early after `patience` dev points in a row without improvement.

    On the CPUs of one machine, with equal threads, a trial is reproducible bit for bit, resumed or
    not; on a GPU as far as `config.deterministic` ensures it.

    Args:
        config: the settings.
        run: provides the seed and a checkpoint to resume from; receives the dev points.
        corpus: the training sentences.
        objective: builds the paper's loss for the student.

    Returns:
        The metrics of the best checkpoint by `config.dev.checkpoint` among trained steps, the
        earliest on ties; empty if every dev score was NaN.

    Raises:
        TrainingError: if the corpus is smaller than a batch, the loss is not finite, or a GPU's
            memory is full.
        CheckpointError: if `run.resume_from` is not a complete checkpoint of this configuration.
    """
    doing = (
        f"it trains with batch_size {config.batch_size}, gradient_accumulation "
        f"{config.gradient_accumulation}, max_length {config.max_length} and precision "
        f"{config.precision}"
    )
    way_out = (
        f"set gradient_accumulation: {2 * config.gradient_accumulation}, which keeps all "
        "negatives, or a smaller batch_size"
    )
    advice = memory_advice(doing, way_out, TrainingError)
    with deterministic_algorithms(config.deterministic), advice:
        return train_and_report(config, run, corpus, objective)


def train_and_report(
    config: TrainingConfig, run: Run, corpus: Corpus, objective: Callable[[Student], Objective]
) -> dict[str, float]:
    """Train from the start or from a checkpoint to the end; see `train`."""
    torch.manual_seed(run.seed)
    schedule = Schedule.of(config, sentences=len(corpus.sentences))
    dev = DevSuite(
        config.dev, data=config.data, arithmetic=config.arithmetic, widths=config.dev_widths
    )
    state = start(config, run.seed, schedule, objective)
    if schedule.total * config.batch_size >= _WORTH_KEEPING * len(corpus.sentences):
        student = state.student
        student.tokenized = TokenizedCorpus(student.encoder, corpus, max_length=config.max_length)
    best = Best(dev_metric(config.dev.checkpoint_name))
    if run.resume_from is None:
        run.report(step=0, metrics=dev.evaluate(as_at_test(state.student.encoder, config)))
    else:
        load_checkpoint(run.resume_from, state, best)
    while not best.is_final(state.step, state.schedule.total, config):
        next_report = (state.step // config.eval_steps + 1) * config.eval_steps
        trained = train_until(min(schedule.total, next_report), state, corpus)
        by, encoders = best.metric, state.objective.evaluation_encoders(state.student)
        tested = [as_at_test(encoder, config) for encoder in encoders]
        scored = [(dev.evaluate(encoder), encoder) for encoder in tested]
        # Every score is better than NaN; of equal ones the first encoder is kept.
        scores, encoder = max(scored, key=lambda one: (not math.isnan(one[0][by]), one[0][by]))
        metrics = trained | scores
        best.consider(state.step, metrics, encoder)
        last = best.is_final(state.step, schedule.total, config)
        save = SaveCheckpoint(partial(gather_state, state), best, last)
        run.report(step=state.step, metrics=metrics, save=save)
    return best.metrics


def as_at_test(encoder: Encoder, config: TrainingConfig) -> Encoder:
    """Return the encoder with the pooler that dev and test sets are read with."""
    return encoder if config.test_pooler is None else encoder.with_pooler(config.test_pooler)


def start(
    config: TrainingConfig, seed: int, schedule: Schedule, objective: Callable[[Student], Objective]
) -> TrainingState:
    """Build the state before step 1: pre-trained backbone, new head, objective and optimiser."""
    keep_freed_memory()
    device = default_device()
    student = Student.from_config(config).to(device)
    own = modify_loss(objective(student), config, width=student.encoder.width).to(device)
    groups = grouped_parameters((student, own), own.parameter_groups(student), config)
    optimizer = make_optimizer(config, groups)
    scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
    return TrainingState(config, seed, schedule, student, own, optimizer, scaler)


def train_until(step: int, state: TrainingState, corpus: Corpus) -> dict[str, float]:
    """Train up to `step`.

    Returns:
        `train/loss`, the mean over the steps trained; `train/loss_<part>`, which sum to it;
        `train/learning_rate` of the last step; `train/progress`; the objective's own metrics,
        `train/<name>`; `perf/sentences_per_second`.

    Raises TrainingError if the loss diverges before, or a metric of the objective has a taken name.
    """
    started, first = time.perf_counter(), state.step
    state.student.train()
    for batch in training_batches(state, corpus, until=step):
        parts = optimise(state, losses_of(state, batch))
        state.watch.add(state.step, parts)
    losses = state.watch.means(step - first)
    seconds = time.perf_counter() - started
    factor = state.schedule.learning_rate_factor(step - 1)
    own = {
        **losses,
        "train/learning_rate": state.config.learning_rate * factor,
        "train/progress": step / state.schedule.total,
        "perf/sentences_per_second": (step - first) * state.config.batch_size / seconds,
    }
    further = {f"train/{name}": value for name, value in state.objective.metrics().items()}
    if taken := sorted(further.keys() & own.keys()):
        kind = type(state.objective)
        raise TrainingError(
            f"{kind.__module__}.{kind.__qualname__}.metrics gives {taken[0]}, which the training "
            "loop reports itself; give it another name"
        )
    return own | further


def losses_of(state: TrainingState, batch: Batch) -> dict[str, Tensor]:
    """Compute the parts of the loss. Raises TrainingError unless they are scalars by name."""
    parts = state.objective(state.student, batch)
    if isinstance(parts, dict) and parts:
        scalars = [isinstance(one, Tensor) and one.dim() == 0 for one in parts.values()]
        if all(scalars) and all(isinstance(name, str) for name in parts):
            return parts
    kind = type(state.objective)
    raise TrainingError(
        f"{kind.__module__}.{kind.__qualname__}.forward returns the parts of a loss, a dict of "
        f"scalars by name, got {_describe_value(parts)}"
    )


def _describe_value(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{name!r}: {_describe_value(part)}' for name, part in value.items())}}}"
        )
    return "None" if value is None else f"{type(value).__name__} {value!r}"[:80]


def training_batches(state: TrainingState, corpus: Corpus, *, until: int) -> Iterator[Batch]:
    """Yield the batches of the steps up to `until`.

    Each epoch has its own order, drawn from (seed, epoch), so that the position follows from the
    step. The objective may replace the sentences that were drawn for a batch.
    """
    size, per_epoch = state.config.batch_size, state.schedule.per_epoch
    epoch, order = -1, np.empty(0, dtype=np.int64)
    while state.step < until:
        if state.step // per_epoch != epoch:
            epoch = state.step // per_epoch
            order = np.random.default_rng([state.seed, epoch]).permutation(len(corpus.sentences))
        first = state.step % per_epoch * size
        rows = state.objective.batch_rows(order[first : first + size])
        sentences = [corpus.sentences[row] for row in rows]
        columns = tuple([column[row] for row in rows] for column in corpus.columns)
        yield Batch(sentences, rows, columns, state.step + 1, state.schedule.total)


def optimise(state: TrainingState, parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take one optimiser step on the sum of `parts`. Returns the parts, detached."""
    factor = state.schedule.learning_rate_factor(state.step)
    for group in state.optimizer.param_groups:
        rate = state.config.learning_rate * factor * group["learning_rate_factor"]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    loss = torch.stack(list(parts.values())).sum()
    # Autocast is only for the forward pass; gradients have the types of their activations.
    arithmetic = state.config.arithmetic
    with computing_in("tf32" if arithmetic == "tf32" else "fp32", loss.device):
        torch.autograd.backward(state.scaler.scale(loss))
    if state.config.max_grad_norm is not None:
        state.scaler.unscale_(state.optimizer)
        trained = [p for group in state.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(trained, state.config.max_grad_norm)
    state.scaler.step(state.optimizer)
    state.scaler.update()
    state.optimizer.zero_grad()
    state.step += 1
    return {name: part.detach() for name, part in parts.items()}
