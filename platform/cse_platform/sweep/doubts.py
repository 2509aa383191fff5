"""Describe settings of a sweep that are valid but do not do what they seem to."""

from collections.abc import Iterable, Iterator, Sequence

from cse_methods.config import MethodConfig, TrainingConfig
from cse_methods.contract import Method
from cse_methods.data.doubts import corpus_doubts
from cse_methods.data.overlap import pair_key
from cse_methods.data.own.reading import load_own_pairs
from cse_methods.data.source import data_source
from cse_methods.own_pairs import OwnPairs
from cse_methods.tasks import OwnSet
from cse_platform.counting_seeds import LEAST_FURTHER
from cse_platform.numbers import format_count
from cse_platform.sweep.preflight import Sizes
from cse_platform.sweep.pruners import NoPruner
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.start_points import published_notes, start_points


def describe_doubts(
    spec: SweepSpec, method: Method, configs: Sequence[MethodConfig], sizes: Sizes | None
) -> list[str]:
    """Describe doubtful settings, one line each.

    `configs` are representatives of the sweep's trials.
    """
    trained = [config for config in configs if isinstance(config, TrainingConfig)]
    return [
        *_doubt_counts(spec, method),
        *_doubt_training(spec, trained, sizes),
        *_doubt_seeds(spec),
        *_doubt_test_sets(spec),
        *(corpus_doubts(sizes.corpus, backbone=spec.backbone) if sizes else ()),
        *published_notes(spec, method),
        *_doubt_encoder(spec, configs, trained),
    ]


def _doubt_counts(spec: SweepSpec, method: Method) -> Iterator[str]:
    """Compare the number of trials with those of selected, of given and of all configurations."""
    for name, block in (("seeds.confirm", spec.seeds.confirm), ("evaluate", spec.evaluate)):
        if block and spec.budget is not None and block.top > spec.budget:
            tried = format_count(spec.budget, "configuration")
            yield f"{name}.top is {block.top}, and the search tries {tried}"
    if (trials := spec.search.trials) is None:
        return
    given = len(start_points(spec, method))
    if given > trials:
        yield (
            f"search.start_from has {given} points and search.trials is {trials}, so the search "
            "ends before all of them are tried; raise search.trials"
        )
    try:
        count = spec.space.count_grid(most=trials)
    except ValueError:  # a range of real numbers
        return
    if count is None or count >= trials or spec.seeds.repeats:
        return
    if spec.search.sampler.kind == "grid":
        yield (
            f"search.trials is {trials}, and the grid ends after {format_count(count, 'trial')}; "
            "leave search.trials out, or set seeds.confirm for further seeds"
        )
    else:
        yield (
            f"the space has {format_count(count, 'configuration')}, so at least {trials - count} "
            f"of {trials} trials are further seeds; sampler: grid tries each configuration once"
        )


def _doubt_training(
    spec: SweepSpec, trained: Sequence[TrainingConfig], sizes: Sizes | None
) -> Iterator[str]:
    """Compare the steps of trials with those of the pruner and of dev, and precision with GPUs."""
    least = spec.pruner.min_step
    pruned = not isinstance(spec.pruner, NoPruner)
    # A method without `TrainingConfig` says nothing of its steps.
    if pruned and sizes and 0 < sizes.most_steps <= least:
        yield (
            f"no trial is ever stopped early: pruner.min_step is {least}, and the longest trial "
            f"takes {format_count(sizes.most_steps, 'step')}"
        )
    short = [c for c in trained if c.max_steps is not None and c.eval_steps > c.max_steps]
    if short:
        yield (
            f"eval_steps is {short[0].eval_steps}, above max_steps, {short[0].max_steps}: dev "
            "curves then have only step 0 and the last step"
        )
    if "epochs" in spec.space and any(config.max_steps is not None for config in trained):
        yield (
            "epochs is in space and has no effect where max_steps is given; leave one of them out"
        )
    if spec.resources.gpu == 0 and any(config.precision == "fp16" for config in trained):
        yield (
            "precision is fp16 and trials run on CPUs, which take about ten times as long for it "
            "as for fp32; set precision: auto"
        )


def _doubt_seeds(spec: SweepSpec) -> Iterator[str]:
    """Find out whether the further seeds suffice for means that no choice flatters."""
    search, further = spec.seeds.search, spec.seeds.further
    if spec.seeds.confirm and not further:
        yield (
            f"seeds.confirm has only seed {search}, which is also the seed of the search, so no "
            "configuration gets a second one"
        )
    elif spec.seeds.confirm and search in spec.seeds.confirm.seeds:
        yield (
            f"seeds.confirm has seed {search}, which is also the seed of the search, so the best "
            f"configurations get only {', '.join(map(str, further))} beside it"
        )
    if 0 < len(further) < LEAST_FURTHER and not spec.confirmed:
        (seed,) = further
        yield (
            f"seeds.confirm gives one further seed, {seed}, so the value that chose a "
            f"configuration counts in its mean, which is too high; give at least {LEAST_FURTHER}"
        )


def _doubt_test_sets(spec: SweepSpec) -> Iterator[str]:
    """Find out which test sets cannot be ranked, or have pairs that dev sets have."""
    if spec.evaluate:
        yield from _find_unrankable(spec.evaluate.parsed_tasks.ranking, spec.data)
        yield from _find_shared_pairs(spec.dev.files.values(), spec.evaluate.files.values())


def _doubt_encoder(
    spec: SweepSpec, configs: Sequence[MethodConfig], trained: Sequence[TrainingConfig]
) -> Iterator[str]:
    """Find out what the encoder's own folder sets: a prompt, or no dropout."""
    from cse_methods.encoders.reading import own_dropout, own_prompt

    if any(c.test_prompt() is None for c in configs) and (prompt := own_prompt(spec.backbone)):
        yield (
            f"backbone {spec.backbone} puts {prompt!r} before each sentence, as its folder says; "
            'prompt: "" leaves it out'
        )
    if any(config.dropout is None for config in trained) and own_dropout(spec.backbone) == 0:
        yield (
            f"backbone {spec.backbone} has no dropout, so two views of a sentence are equal if "
            "only dropout makes them differ; set dropout: 0.1"
        )


def _find_unrankable(tasks: Sequence[str], data: str | None) -> Iterator[str]:
    """Find out whether the built-in sets among these have something to rank; real ones have."""
    if not tasks or data_source(data) != "builtin":
        return
    from cse_methods.evaluation.measures.ranking import MORE_THAN, queries
    from cse_methods.evaluation.test_sets.pairs import load_pair_set

    sets = [load_pair_set(task, data) for task in tasks]
    if not any(queries(pairs.first, pairs.second) for pairs in sets):
        yield (
            "evaluate: ranking gets no score, because no sentence of the built-in test sets stands "
            f"in more than {MORE_THAN} pairs"
        )


def _find_shared_pairs(dev: Iterable[OwnSet], tests: Iterable[OwnSet]) -> Iterator[str]:
    """Find out which of a lab's own test sets hold pairs of its own dev sets."""
    of_dev, of_tests = (
        [load_own_pairs(own) for own in sets if isinstance(own, OwnPairs)] for sets in (dev, tests)
    )
    known = {pair_key(*pair) for one in of_dev for pair in zip(one.first, one.second, strict=True)}
    for one in of_tests:
        pairs = list(zip(one.first, one.second, strict=True))
        if shared := sum(pair_key(*pair) in known for pair in pairs):
            yield (
                f"evaluate: {shared} of the {len(pairs)} pairs of {one.task} are in the file's "
                "own dev sets, and a test set must not guide training"
            )
