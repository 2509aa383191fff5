"""The library's trainer behind the port: dev points, the best encoder, checkpoints, resuming."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerState
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME

from cse_methods.config import TrainingConfig
from cse_methods.contract import Run
from cse_methods.data.dev_selection import dev_metric
from cse_methods.encoders.library_encoder import LibraryEncoder
from cse_methods.errors import TrainingError
from cse_methods.training.checkpoint import Best, SaveCheckpoint, fingerprint, read_checkpoint
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.divergence import DivergenceWatch
from cse_methods.training.schedule import Schedule

_RANDOM_STATES = "rng_state.pth"
"""The file in which the library looks for the states of random generators."""


def report_to_cse(
    trainer: Any,
    config: TrainingConfig,
    run: Run,
    *,
    at_test: Callable[[], LibraryEncoder] | None = None,
    widths: Sequence[int] = (),
) -> dict[str, float]:
    """Train with a `SentenceTransformerTrainer` as `cse_methods.train` trains.

    It reports to `run` at step 0, every `config.eval_steps` and at the last step, keeps the encoder
    that is best on dev, stops after `config.patience`, and resumes from `run.resume_from` bit for
    bit on CPUs. The length of training is the trainer's.

    Args:
        trainer: with model, losses and data, and not trained yet. Its arguments follow from
            `config` and `run.seed`.
        config: the settings, whose `dev` names the dev sets.
        run: provides the seed and a checkpoint to resume from; receives the dev points.
        at_test: makes the encoder that is scored and kept of what is trained; None is the
            trainer's model.
        widths: dev sets are also scored by so many first coordinates.

    Returns:
        The metrics of the best checkpoint by `config.dev.checkpoint` among trained steps, the
        earliest on ties; empty if every dev score was NaN.

    Raises:
        TrainingError: if what is trained is not float32, the trainer and `config` differ in
            `max_steps`, the loss is not finite, or the data give no batch.
        CheckpointError: if `run.resume_from` is not a complete checkpoint of this configuration.
    """
    dev = DevSuite(config.dev, data=config.data, arithmetic=config.arithmetic, widths=widths)
    port = _Port(trainer, config, run, dev, at_test or partial(LibraryEncoder, trainer.model))
    port.check(trainer.args.max_steps)
    trainer.add_callback(port)
    if run.resume_from is None:
        run.report(step=0, metrics=port.evaluate()[0])
        trainer.train()
    else:
        port.stored = read_checkpoint(run.resume_from, fingerprint(config, run.seed), port.best)
        if port.best.is_final(port.stored["step"], port.stored["max_steps"], config):
            return port.best.metrics
        with TemporaryDirectory(prefix="cse-resumed-") as folder:
            _write_library_checkpoint(port.stored, trainer, Path(folder))
            trainer.train(resume_from_checkpoint=folder)
    if not port.best.is_final(trainer.state.global_step, trainer.state.max_steps, config):
        raise TrainingError(
            f"training ended after {trainer.state.global_step} of {trainer.state.max_steps} steps, "
            "because the corpus gives no whole batch: too many of its rows are equal, or too few "
            "have one label; take a smaller batch_size"
        )
    return port.best.metrics


class _Port(TrainerCallback):  # type: ignore[misc]
    """Evaluates, reports and keeps the best encoder at each dev point of a trainer."""

    def __init__(
        self,
        trainer: Any,
        config: TrainingConfig,
        run: Run,
        dev: DevSuite,
        at_test: Callable[[], LibraryEncoder],
    ) -> None:
        self.config, self.run, self.dev, self.at_test = config, run, dev, at_test
        self.best = Best(dev_metric(config.dev.checkpoint_name))
        self.stored: dict[str, Any] | None = None
        """The checkpoint that training goes on from."""
        loss = trainer.loss
        losses = loss if isinstance(loss, dict) else {type(loss).__name__: loss}
        for name, module in losses.items():
            module.register_forward_hook(partial(self._record_loss, name))
        self._model, self._length = trainer.model, trainer.model.max_seq_length
        self._trained = nn.ModuleDict({"model": trainer.model, "losses": nn.ModuleDict(losses)})
        self._watch: DivergenceWatch
        self._step, self._rate = 0, 0.0
        """Of the step in progress."""
        self._batch_size = trainer.args.train_batch_size
        self._begin_interval(0)

    def check(self, max_steps: int) -> None:
        """Raise TrainingError if weights are trained in half precision, or for other steps.

        `max_steps` are those of the trainer, -1 if it has none.
        """
        for name, weight in self._trained.named_parameters():
            if weight.requires_grad and weight.dtype in (torch.float16, torch.bfloat16):
                raise TrainingError(
                    f"{name} is trained in {str(weight.dtype).removeprefix('torch.')}, and trials "
                    "train weights in float32; load the encoder with "
                    'model_kwargs={"dtype": torch.float32}, or turn what is trained into it, as '
                    "the adapters of frozen weights: weight.data = weight.data.float()"
                )
        if self.config.max_steps is not None and 0 < max_steps != self.config.max_steps:
            raise TrainingError(
                f"the trainer has max_steps {max_steps}, and the settings have "
                f"{self.config.max_steps}; give the trainer max_steps=config.max_steps"
            )

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        warmup = args.get_warmup_steps(state.max_steps)
        self._watch = DivergenceWatch(self.config, Schedule(state.max_steps, warmup, per_epoch=1))
        if self.stored is not None:
            with torch.no_grad():
                for name, tensor in _collect_trained(self._trained).items():
                    tensor.copy_(self.stored["trained"][name])
        self._begin_interval(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._step = state.global_step + 1
        self._rate = others["lr_scheduler"].get_last_lr()[0]

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        step = state.global_step
        if step % self.config.eval_steps and step < state.max_steps:
            return
        trained = self._measure_training(step, state.max_steps)
        scores, encoder = self.evaluate()
        metrics = trained | scores
        self.best.consider(step, metrics, encoder)
        last = self.best.is_final(step, state.max_steps, self.config)
        gather = partial(self._gather_state, state, others["optimizer"], others["lr_scheduler"])
        save = SaveCheckpoint(gather, self.best, last)
        self.run.report(step=step, metrics=metrics, save=save)
        control.should_training_stop = last
        self._begin_interval(step)

    def evaluate(self) -> tuple[dict[str, float], LibraryEncoder]:
        """Score the encoder that is kept on all dev sets. Returns it too."""
        training = self._model.training
        encoder = self.at_test()
        encoder.model.eval()
        scores = self.dev.evaluate(encoder)
        self._model.train(training)
        return scores, encoder

    def _record_loss(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Add the parts of a step's loss to the watch. TrainingError if one has diverged."""
        del module, inputs
        if isinstance(output, Tensor):
            parts = {name: output.detach()}
        else:
            parts = {f"{name}_{part}": value.detach() for part, value in output.items()}
        self._watch.add(self._step, parts)

    def _begin_interval(self, step: int) -> None:
        self._first, self._started = step, time.perf_counter()
        if self._length is not None:  # an encoder that is scored reads as far as it can
            self._model.max_seq_length = self._length

    def _measure_training(self, step: int, max_steps: int) -> dict[str, float]:
        steps = step - self._first
        losses = self._watch.means(steps)
        seconds = time.perf_counter() - self._started
        return {
            **losses,
            "train/learning_rate": self._rate,
            "train/progress": step / max_steps,
            "perf/sentences_per_second": steps * self._batch_size / seconds,
        }

    def _gather_state(self, state: Any, optimizer: Any, scheduler: Any) -> dict[str, Any]:
        return {
            "fingerprint": fingerprint(self.config, self.run.seed),
            "trained": _collect_trained(self._trained),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "step": state.global_step,
            "epoch": state.epoch,
            "max_steps": state.max_steps,
        }


def _collect_trained(modules: nn.Module) -> dict[str, Tensor]:
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


def _write_library_checkpoint(stored: Mapping[str, Any], trainer: Any, folder: Path) -> None:
    """Write a checkpoint as the library resumes from one.

    Its model is the untrained one: the port restores what is trained.
    """
    trainer.model.save_pretrained(str(folder), create_model_card=False)
    state = TrainerState(
        epoch=stored["epoch"],
        global_step=stored["step"],
        max_steps=stored["max_steps"],
        train_batch_size=trainer.args.train_batch_size,
    )
    state.save_to_json(str(folder / TRAINER_STATE_NAME))
    torch.save(stored["optimizer"], folder / OPTIMIZER_NAME)
    torch.save(stored["scheduler"], folder / SCHEDULER_NAME)
    random = {"python": stored["python_rng"], "numpy": stored["numpy_rng"], "cpu": stored["rng"]}
    gpus = stored["cuda_rng"]
    torch.save(random | ({"cuda": gpus[0]} if gpus else {}), folder / _RANDOM_STATES)
