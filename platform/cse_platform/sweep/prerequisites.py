"""What a sweep needs before its first trial: what is missing, and what can be fetched."""

from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from cse_methods.contract import Method, MethodConfig
from cse_methods.data.corpora import load_corpus, missing_corpora
from cse_methods.data.dev_identity import missing_dev_data
from cse_methods.data.own.reading import describe_own_pairs, refuse_dev_as_test, with_checksum
from cse_methods.data.source import data_source
from cse_methods.encoders.backbones import fetch_backbone, locate_backbone, resolve_backbone
from cse_platform.errors import SweepRefusedError
from cse_platform.sweep.best import BestReference
from cse_platform.sweep.best_in_spec import best_references
from cse_platform.sweep.check import representatives
from cse_platform.sweep.spec import SweepSpec


def with_data_source(spec: SweepSpec) -> SweepSpec:
    """The sweep with its data source written out, so that it means the same on every node.

    Own dev and test sets are held to the pairs that they have now. DataError if one cannot be read
    or is both, or if `data` or CSE_DATA names no folder in the SentEval layout.
    """
    source = data_source(spec.data)
    data = str(source.absolute()) if isinstance(source, Path) else source
    dev = spec.dev.with_files(with_checksum)
    tests = spec.evaluate and spec.evaluate.with_files(with_checksum)
    if tests:
        refuse_dev_as_test(dev.files.values(), tests.files.values())
    return spec.model_copy(update={"data": data, "dev": dev, "evaluate": tests})


def missing_downloads(spec: SweepSpec, method: Method) -> list[str]:
    """Everything of this sweep that must come from the hub, one line each.

    Raises a CseError for what is missing and cannot be fetched: unknown names, wrong folders, files
    that the method is to read.
    """
    configs = [spec.config(assignment) for assignment in representatives(spec, method)]
    _refuse_missing_files(spec, method, configs)
    for config in configs:
        config.ingredients()  # says what is not installed
    placeholders = {reference.placeholder for reference in best_references(spec)}
    names = dict.fromkeys(name for config in configs for name in config.encoders())
    encoders = [name for name in names if name not in placeholders]
    _refuse_unfit_encoders(encoders, configs)
    missing = [s for s in map(resolve_backbone, encoders) if locate_backbone(s) is None]
    return [
        *(f"encoder {s.name}: {s.origin}" for s in missing),
        *missing_corpora(spec.corpus, spec.data),
        *missing_dev_data(spec.dev, spec.data),
        *_missing_tests(spec),
    ]


def own_sets(spec: SweepSpec, *, among: Container[str] | None = None) -> list[str]:
    """What was found in the lab's own sets, a line each; DataError if one cannot be read.

    `among` has the files that are looked at; without it all are.
    """
    tests = spec.evaluate.files if spec.evaluate else {}
    kinds = {"dev": spec.dev.files, "test": tests}
    return [
        f"{kind} set {describe_own_pairs(own)}"
        for kind, files in kinds.items()
        for own in files.values()
        if among is None or own.file in among
    ]


def fetch_missing(spec: SweepSpec) -> None:
    """Get the backbone and the corpus onto this machine; a CseError for what cannot be had."""
    fetch_backbone(resolve_backbone(spec.backbone))
    load_corpus(spec.corpus, spec.data, backbone=spec.backbone)


def references_to_resolve(spec: SweepSpec, earlier: Sequence[SweepSpec]) -> list[BestReference]:
    """References to a best encoder that no earlier stage of the same file will train."""
    trained = {(stage.method, stage.backbone) for stage in earlier}
    return [r for r in best_references(spec) if (r.method, r.backbone) not in trained]


def _refuse_unfit_encoders(names: Iterable[str], configs: Iterable[MethodConfig]) -> None:
    """Raise what loading them would, for those that are on this machine."""
    from cse_methods.encoders.reading import check_encoder

    for name in names:
        check_encoder(name)
    asked = {(c.backbone, c.pooler, c.first_layer, c.test_prompt(), c.max_length) for c in configs}
    for backbone, pooler, first_layer, prompt, max_length in sorted(asked, key=str):
        check_encoder(
            backbone, pooler=pooler, first_layer=first_layer, prompt=prompt, max_length=max_length
        )


def _missing_tests(spec: SweepSpec) -> list[str]:
    from cse_methods.evaluation.test_sets.availability import missing_tests

    asked = spec.evaluate
    return [] if asked is None else missing_tests(asked.asked, spec.data)


def _refuse_missing_files(spec: SweepSpec, method: Method, configs: Iterable[MethodConfig]) -> None:
    for name in dict.fromkeys(name for config in configs for name in config.files()):
        if not Path(name).is_file():
            wanted = f"sweep {spec.sweep!r}: {method.name} is to read {name!r}"
            raise SweepRefusedError(f"{wanted}: no such file")
