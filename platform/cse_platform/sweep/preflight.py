"""Check before the first trial that a sweep's files and models exist, and fit its settings."""

import logging
import os
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

from pydantic import SecretStr

from cse_methods.config import MethodConfig, TrainingConfig
from cse_methods.data.corpora import load_corpus, missing_corpora
from cse_methods.data.corpus import Corpus
from cse_methods.data.dev_sets import missing_dev_data
from cse_methods.data.own.reading import (
    describe_own_pairs,
    refuse_dev_as_test,
    refuse_test_as_dev,
    with_checksum,
)
from cse_methods.data.source import data_source
from cse_methods.encoders.backbones import (
    Backbone,
    backbone_width,
    locate_backbone,
    refuse_untrainable,
    resolve_backbone,
)
from cse_methods.errors import BackboneError, CseError
from cse_methods.own_pairs import OwnPairs
from cse_methods.referenced_tasks.snapshots import find_snapshot, library_version, read_rows
from cse_methods.registry import available_methods
from cse_methods.setting_text import yaml_text
from cse_methods.task_reference import Reference
from cse_methods.tasks import OwnSet
from cse_methods.training.schedule import Schedule
from cse_platform.errors import NotInstalledError, SweepRefusedError
from cse_platform.sweep.blocks import EXPECTED_URL, Resources
from cse_platform.sweep.problems import Inspection, Problem, Steps
from cse_platform.sweep.references import BestReference
from cse_platform.sweep.spec import SweepSpec, best_references
from cse_platform.values import iterate_leaves


@dataclass(frozen=True)
class Sizes:
    """The corpus of a sweep, and the lengths of its trials."""

    corpus: Corpus
    """The training corpus."""
    fewest_steps: int
    """Optimiser steps of the shortest trial; 0 if nothing is trained, or unknown."""
    most_steps: int


def measure_sizes(
    spec: SweepSpec, configs: Sequence[MethodConfig], inspection: Inspection
) -> Sizes | None:
    """Read the corpus and the encoder's width; None if the corpus must be downloaded first.

    Notes as problems a corpus that cannot be read, and choices or bounds of the space that do not
    fit the corpus or the encoder, which a trial would notice only after its start.
    """
    cut = any(corpus.split_at is not None for corpus in spec.corpus)

    def read_if_here() -> Corpus | None:
        absent = missing_corpora(spec.corpus, spec.data) or (
            cut and locate_backbone(resolve_backbone(spec.backbone)) is None
        )
        return None if absent else read_corpus(spec)

    def check_widths() -> None:
        if (width := backbone_width(spec.backbone)) is not None:
            for config in configs:
                config.check_width(width)

    needs = ("corpus", "data", "backbone") if cut else ("corpus", "data")
    corpus = inspection.run_check(("corpus",), read_if_here, needs=needs)
    inspection.run_check(("backbone",), check_widths, needs=("backbone",))
    if corpus is None or not configs:
        return None
    sentences = len(corpus.sentences)
    sections = [key for key in ("fixed", "space") if "batch_size" in getattr(spec, key)]
    steps = inspection.run_check(
        (sections[0], "batch_size") if sections else ("corpus",),
        lambda: [count_steps(config, sentences=sentences) for config in configs],
    )

    def check_rows() -> None:
        for config in configs:
            config.check_data(corpus)

    inspection.run_check(("corpus",), check_rows)
    return Sizes(corpus, min(steps), max(steps)) if steps else None


def read_corpus(spec: SweepSpec) -> Corpus:
    """Read a sweep's corpus; texts of test sets are first written to where trials read them."""
    from cse_methods.evaluation.test_sets.pairs import hand_out_texts

    hand_out_texts(spec.corpus, spec.data)
    return load_corpus(spec.corpus, spec.data, backbone=spec.backbone)


def count_steps(config: MethodConfig, *, sentences: int) -> int:
    """Count a trial's optimiser steps; 0 if nothing is trained, or unknown.

    May raise TrainingError.
    """
    if not isinstance(config, TrainingConfig):
        return 0
    return Schedule.of(config, sentences=sentences).total


def count_at_once(slot: Resources) -> int:
    """Count the trials that this machine can run at the same time; 0 if none fits."""
    return min(int(available / needed + 1e-9) for _, needed, available in _iterate_resources(slot))


def explain_shortage(slot: Resources) -> str | None:
    """Explain why a trial does not fit on this machine; None if it does."""
    for name, needed, available in _iterate_resources(slot):
        if needed > available:
            return (
                f"a trial asks for {needed:g} {name} and this machine has {available}; name a Ray "
                f"cluster by --address, or run it with --set resources.{name.lower()}={available}"
            )
    return None


def _iterate_resources(slot: Resources) -> Iterator[tuple[str, float, int]]:
    yield "CPU", slot.cpu, os.cpu_count() or 1
    if slot.gpu:
        import torch  # takes seconds, if the method has not imported it

        yield "GPU", slot.gpu, torch.cuda.device_count()


SETTINGS = ("method", "backbone", "corpus", "dev", "fixed", "space")
"""The keys that determine the configurations of a sweep's trials."""


def with_data_source(spec: SweepSpec, inspection: Inspection) -> SweepSpec:
    """Fill in the data source of a sweep, so that it is the same on every node.

    The current checksums of own dev and test sets are filled in, too. Notes as problems a `data` or
    CSE_DATA that is not a folder in the SentEval layout, and sets that cannot be read or serve as
    both dev and test set.
    """
    source = inspection.run_check(("data",), lambda: data_source(spec.data), needs=("data",))
    data = str(source.absolute()) if isinstance(source, Path) else source

    def read(key: str, own: OwnSet) -> OwnSet:
        if isinstance(own, OwnPairs):
            return inspection.run_check((key,), partial(with_checksum, own)) or own
        return inspection.run_check((key,), partial(find_snapshot, own)) or own

    dev = spec.dev.with_files(partial(read, "dev"))
    tests = spec.evaluate and spec.evaluate.with_files(partial(read, "evaluate"))
    if dev.files:
        from cse_methods.evaluation.test_sets.pairs import KNOWN_SHA256

        refuse = partial(refuse_test_as_dev, dev.files.values(), KNOWN_SHA256)
        inspection.run_check(("dev",), refuse, needs=("dev",))
    if tests:
        refuse = partial(refuse_dev_as_test, dev.files.values(), tests.files.values())
        inspection.run_check(("evaluate",), refuse, needs=("dev", "evaluate"))
    return spec.model_copy(update={"data": data, "dev": dev, "evaluate": tests})


def sample_configs(spec: SweepSpec, inspection: Inspection) -> list[MethodConfig]:
    """Build configurations that cover each choice and bound; none if a setting is invalid."""
    built = inspection.run_check((), lambda: [*map(spec.config, spec.examples)], needs=SETTINGS)
    return built or []


def list_downloads(
    spec: SweepSpec, configs: Sequence[MethodConfig], inspection: Inspection
) -> list[str]:
    """List everything that this sweep must download from the hub, one line each.

    Notes as problems what is missing and cannot be downloaded: unknown names, wrong folders, files
    that the method reads. Packages that a configuration needs are noted in `to_install`.
    """
    for name in dict.fromkeys(name for config in configs for name in config.files()):
        if not Path(name).is_file():
            text = f"{spec.method} reads {name!r}: no such file"
            inspection.problems.append(Problem(_locate_text(name, spec), text))

    def refuse_uninstalled(config: MethodConfig) -> None:
        try:
            config.ingredients()
        except CseError as error:
            raise NotInstalledError(str(error)) from error

    for config in configs:
        inspection.run_check((), partial(refuse_uninstalled, config))

    def is_absent(encoder: Backbone) -> bool:
        return locate_backbone(encoder) is None

    missing = [
        f"encoder {encoder.name}: {encoder.origin}"
        for path, encoder in _find_encoders(spec, configs, inspection)
        if inspection.run_check(path, partial(is_absent, encoder))
    ]
    for index, corpus in enumerate(spec.corpus if inspection.is_sound("corpus", "data") else ()):
        look = partial(missing_corpora, [corpus], spec.data)
        missing += inspection.run_check(("corpus", index), look) or []
    dev = partial(missing_dev_data, spec.dev, spec.data)
    missing += inspection.run_check(("dev",), dev, needs=("dev", "data")) or []
    refuse_tested = partial(_check_references, spec.dev.references.values())
    inspection.run_check(("dev",), refuse_tested, needs=("dev",))
    if spec.evaluate is not None:
        from cse_methods.evaluation.test_sets.availability import missing_tests

        tests = partial(missing_tests, spec.evaluate.parsed_tasks, spec.data)
        missing += inspection.run_check(("evaluate",), tests, needs=("evaluate", "data")) or []
        check_tests = partial(_check_references, spec.evaluate.parsed_tasks.referenced)
        inspection.run_check(("evaluate",), check_tests)
    return list(dict.fromkeys(missing))


def _check_references(references: Iterable[Reference]) -> None:
    """Raise EvaluationError if mteb is missing, lacks a task whose data is not here, or tests on
    the split to develop on.
    """
    is_here = library_version() is not None
    if unknown := [one for one in references if not (is_here and find_snapshot(one))]:
        from cse_methods.referenced_tasks.library import check_references  # torch and mteb

        check_references(unknown)


def describe_own_sets(spec: SweepSpec, *, among: Container[str] | None = None) -> list[str]:
    """Describe the lab's own sets, one line each; DataError if one cannot be read.

    If `among` is given, only the files that it contains are described.
    """
    tests = spec.evaluate.files if spec.evaluate else {}
    kinds = {"dev": spec.dev.files, "test": tests}
    return [
        f"{kind} set {_describe_own_set(own)}"
        for kind, files in kinds.items()
        for own in files.values()
        if own.paths and (among is None or own.paths[0] in among)
    ]


def _describe_own_set(own: OwnSet) -> str:
    if isinstance(own, OwnPairs):
        return describe_own_pairs(own)
    rows = read_rows(own)
    parts = ", ".join(f"{len(of_part)} {name.rpartition('/')[2]}" for name, of_part in rows.items())
    return f"{own.task}: {parts} of {', '.join(own.paths)}"


def find_unresolved_references(
    spec: SweepSpec, earlier: Sequence[SweepSpec]
) -> list[BestReference]:
    """List references to a best encoder that no earlier stage of the file will train."""
    trained = {(stage.method, stage.backbone) for stage in earlier}
    return [r for r in best_references(spec) if (r.method, r.backbone) not in trained]


@contextmanager
def encoder_modules_imported() -> Iterator[None]:
    """Import what `check_encoders` needs, which takes seconds, in a thread beside the context."""
    thread = Thread(target=import_module, args=("cse_methods.encoders.encoder_check",))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def check_encoders(
    spec: SweepSpec, configs: Sequence[MethodConfig], inspection: Inspection
) -> None:
    """Check that the encoders that are here can be read as the configurations want them."""
    from cse_methods.encoders.encoder_check import check_encoder
    from cse_methods.encoders.reading import asked_pooler
    from cse_methods.training.teachers import TeacherSpec

    readings: dict[str, set[Any]] = defaultdict(set)
    for config in configs:
        for names in ("teachers", "base_teachers"):
            for teacher in getattr(config, names, None) or ():
                if isinstance(teacher, TeacherSpec):
                    readings[teacher.model].add((teacher.pooler, teacher.prompt, teacher.head))
    for path, encoder in _find_encoders(spec, configs, inspection):
        for pooler, prompt, head in sorted(readings[encoder.name] or {(None, None, None)}, key=str):
            read = partial(check_encoder, encoder.name, pooler=pooler, prompt=prompt, head=head)
            inspection.run_check(path, read)

    def check_trainable() -> None:
        trained = any(isinstance(c, TrainingConfig) and not c.by_library for c in configs)
        if trained and (folder := locate_backbone(resolve_backbone(spec.backbone))):
            refuse_untrainable(spec.backbone, folder)

    inspection.run_check(("backbone",), check_trainable, needs=("backbone",))
    settings = {
        (
            c.backbone,
            None if c.by_library else c.pooler,  # which is a word of the library's
            c.first_layer,
            c.test_prompt(),
            c.max_length,
            c.precision if isinstance(c, TrainingConfig) else "fp32",
            False if isinstance(c, TrainingConfig) else getattr(c, "head", None),
        )
        for c in configs
    }
    for name, pooler, first_layer, prompt, max_length, precision, head in sorted(settings, key=str):
        given = inspection.run_check((), partial(asked_pooler, name, pooler), needs=("backbone",))
        read = partial(check_encoder, name, pooler=given, first_layer=first_layer, prompt=prompt)
        check = partial(read, max_length=max_length, precision=precision, head=head)
        inspection.run_check(("backbone",), check, needs=("backbone",))
    for config in configs:
        path = _locate_text(config.encoders()[-1], spec) or ("backbone",)
        inspection.run_check(path, config.check_encoders, needs=("backbone", "fixed", "space"))


def check_steps(spec: SweepSpec, inspection: Inspection) -> None:
    """Check that the method can take a step with each combination of settings that it wants tried.

    Notes as problems the combinations with which it cannot.
    """
    if not inspection.is_sound(*SETTINGS):
        return
    method = spec.find_method()
    if not method.config.tried_together:
        return
    searched = [name for name in method.config.tried_together if name in spec.space]
    some = {name: value for example in spec.examples for name, value in example.items()}
    configs = dict[str, MethodConfig]()
    for values in product(*(spec.space[name].ends for name in searched)):
        # What takes part only with these values gets one of its own.
        assignment = spec.space.select_active({**some, **dict(zip(searched, values, strict=True))})
        with suppress(SweepRefusedError):  # which a search is told when it draws it
            config = spec.config(assignment)
            tried = {name: getattr(config, name) for name in method.config.tried_together}
            configs.setdefault(yaml_text(tried), config)
    path = ("space", searched[0]) if searched else ("fixed",)
    answers = inspection.run_check(path, lambda: method.config.try_steps(list(configs.values())))
    for tried_text, answer in zip(configs, answers or (), strict=False):
        if answer is not None:
            text = f"a step with {tried_text} fails: {answer}; search one of them `when:` it fits"
            inspection.problems.append(Problem(path, text))


def _find_encoders(
    spec: SweepSpec, configs: Sequence[MethodConfig], inspection: Inspection
) -> Iterator[tuple[Steps, Backbone]]:
    """Find the encoders of configurations, each with the path that names it.

    Notes as problems names that no encoder has.
    """
    passed_over = {reference.placeholder for reference in best_references(spec)}
    if not inspection.is_sound("backbone"):
        passed_over.add(spec.backbone)
    others = (name for config in configs for name in config.encoders())
    for name in dict.fromkeys([spec.backbone, *others]):
        if name not in passed_over:
            path = ("backbone",) if name == spec.backbone else _locate_text(name, spec)
            find = resolve_backbone if name == spec.backbone else partial(_find_teacher, spec)
            if encoder := inspection.run_check(path, partial(find, name)):
                yield path, encoder


def _find_teacher(spec: SweepSpec, name: str) -> Backbone:
    """Find another encoder than the backbone. A BackboneError says how the best one of a method
    is written, if the name is a method's.
    """
    try:
        return resolve_backbone(name)
    except BackboneError as error:
        if name not in available_methods():
            raise
        best = f"{{best: {{method: {name}, backbone: {spec.backbone}}}}}"
        raise BackboneError(
            f"{name!r} is a method; write {best} for its best encoder on the leaderboard"
        ) from error


def _locate_text(text: str, spec: SweepSpec) -> Steps:
    """Find the path of a text under `fixed` or `space`; empty if it is in neither."""
    data = spec.model_dump(mode="json", include={"fixed", "space"})
    return next((steps for steps, value in iterate_leaves(data) if value == text), ())


def refuse_unknown_service(url: SecretStr) -> None:
    """Raise SweepRefusedError for a URL that no known service accepts.

    Raises NotInstalledError if Apprise is not installed.
    """
    try:
        import apprise
    except ImportError as error:
        raise NotInstalledError(
            f"notify: needs Apprise, which cannot be imported ({error}); run pip install "
            "'cse-platform[notify]'"
        ) from error
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its messages would show URLs
    if not apprise.Apprise().add(url.get_secret_value()):
        raise SweepRefusedError(f"Apprise knows no service of this URL; {EXPECTED_URL}")
