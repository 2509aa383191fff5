"""Whether a sweep fits its corpus, encoder and machine, told before a trial finds out."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from cse_methods.contract import Method, MethodConfig, TrainingConfig
from cse_methods.data.corpora import Corpus, load_corpus, missing_corpora
from cse_methods.data.doubts import corpus_doubts
from cse_methods.encoders.backbones import backbone_width, locate_backbone, resolve_backbone
from cse_methods.training.schedule import Schedule
from cse_platform.render.formats import counted
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.reading.problems import Inspection
from cse_platform.sweep.resources import Slot
from cse_platform.sweep.space.start_points import published_notes
from cse_platform.sweep.spec import SweepSpec


@dataclass(frozen=True)
class Sizes:
    """What the trials of a sweep are made of."""

    corpus: Corpus
    """What is trained on."""
    fewest_steps: int
    """Optimiser steps of the shortest trial; 0 where nothing is trained."""
    most_steps: int


def sizes_of(spec: SweepSpec, configs: Sequence[MethodConfig], found: Inspection) -> Sizes | None:
    """Read the corpus and the encoder's width; None while the corpus has to be fetched.

    Wrong are a corpus that cannot be read as it is, and a choice or a bound of the space that does
    not fit corpus or encoder, as a trial would find only after its start.
    """
    cut = any(corpus.split_at is not None for corpus in spec.corpus)
    needs = ("corpus", "data", "backbone") if cut else ("corpus", "data")
    corpus = found.attempt(("corpus",), partial(_read_corpus, spec, cut=cut), needs=needs)
    found.attempt(("backbone",), partial(_check_widths, spec, configs), needs=("backbone",))
    if corpus is None or not configs:
        return None
    count = partial(_count_steps, configs, sentences=len(corpus.sentences))
    steps = found.attempt(("corpus",), count)
    return Sizes(corpus, min(steps), max(steps)) if steps else None


def _read_corpus(spec: SweepSpec, *, cut: bool) -> Corpus | None:
    if missing_corpora(spec.corpus, spec.data):
        return None
    if cut and locate_backbone(resolve_backbone(spec.backbone)) is None:
        return None
    return load_corpus(spec.corpus, spec.data, backbone=spec.backbone)


def _check_widths(spec: SweepSpec, configs: Iterable[MethodConfig]) -> None:
    if (width := backbone_width(spec.backbone)) is not None:
        for config in configs:
            config.check_width(width)


def _count_steps(configs: Iterable[MethodConfig], *, sentences: int) -> list[int]:
    return [steps_of(config, sentences=sentences) for config in configs]


def steps_of(config: MethodConfig, *, sentences: int) -> int:
    """Optimiser steps of a trial; 0 where nothing is trained. TrainingError as the trial's own."""
    if not isinstance(config, TrainingConfig):
        return 0
    return Schedule.of(config, sentences=sentences).total


def doubts(
    spec: SweepSpec, method: Method, configs: Sequence[MethodConfig], sizes: Sizes | None
) -> list[str]:
    """What is allowed and does not do what it seems to, a line each.

    `configs` are those that stand for the sweep's trials.
    """
    found = []
    confirm, evaluate = spec.seeds.confirm, spec.evaluate
    for name, top in (
        ("seeds.confirm.top", confirm and confirm.top),
        ("evaluate.top", evaluate and evaluate.top),
    ):
        if top and spec.budget is not None and top > spec.budget:
            found.append(
                f"{name} is {top}, and the search tries {counted(spec.budget, 'configuration')}"
            )
    if spec.seeds.value == "lower_bound" and not spec.seeds.confirm:
        found.append(
            "seeds.value is lower_bound, which takes several seeds, and no configuration gets a "
            "second one; see seeds.confirm"
        )
    least = spec.pruner.min_step
    if sizes and not isinstance(spec.pruner, NoPruner) and least >= sizes.most_steps:
        found.append(
            f"no trial is ever stopped early: pruner.min_step is {least}, and the longest trial "
            f"takes {counted(sizes.most_steps, 'step')}"
        )
    found += _eval_steps_doubts(configs)
    if spec.seeds.confirm and not spec.seeds.further:
        found.append(
            f"seeds.confirm has no seed but {spec.seeds.search}, which each trial of the search "
            "has, so no configuration gets a second one"
        )
    if sizes:
        found += corpus_doubts(sizes.corpus, spec.corpus, backbone=spec.backbone)
    return found + published_notes(spec, method) + _dropout_doubts(spec, configs)


def _eval_steps_doubts(configs: Iterable[MethodConfig]) -> list[str]:
    """Whether a trial reports nothing between its beginning and its end."""
    trained = [config for config in configs if isinstance(config, TrainingConfig)]
    for steps, most in ((config.eval_steps, config.max_steps) for config in trained):
        if most is not None and steps > most:
            return [
                f"eval_steps is {steps}, above max_steps, {most}: a dev curve then has step 0 and "
                "the last one alone"
            ]
    return []


def _dropout_doubts(spec: SweepSpec, configs: Iterable[MethodConfig]) -> list[str]:
    """Whether views that differ by dropout alone are the same view."""
    trained = [config for config in configs if isinstance(config, TrainingConfig)]
    if not any(config.dropout is None for config in trained):
        return []
    from cse_methods.encoders.reading import own_dropout

    if own_dropout(spec.backbone) != 0:
        return []
    return [
        f"backbone {spec.backbone} drops nothing out, so that two views of a sentence are the same "
        "where dropout alone sets them apart; set dropout: 0.1"
    ]


def at_once(slot: Slot) -> int:
    """How many trials this machine runs at the same time; 0 if not one fits."""
    return min(int(there / asked + 1e-9) for _, asked, there in _asked_and_there(slot))


def shortage(slot: Slot) -> str | None:
    """Why a trial does not fit on this machine; None if it does."""
    for name, asked, there in _asked_and_there(slot):
        if asked > there:
            return (
                f"a trial asks for {asked:g} {name} and this machine has {there}; name a Ray "
                f"cluster by --address, or run it with --set resources.{name.lower()}={there}"
            )
    return None


def _asked_and_there(slot: Slot) -> Iterator[tuple[str, float, int]]:
    yield "CPU", slot.cpu, os.cpu_count() or 1
    if slot.gpu:
        import torch  # seconds, where the method has not imported it

        yield "GPU", slot.gpu, torch.cuda.device_count()
