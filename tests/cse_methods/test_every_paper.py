"""What every method owes the platform, whatever its paper says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.registry import available_methods
from cse_methods.testing import CHECKS, TrainedOnce, train_once

SHORT = {"max_length": 64}
"""HiCL's default is more than the tiny encoders have positions."""
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "simcse": [
        {},
        {
            "optimizer": "rmsprop",
            "learning_rate_schedule": "constant",
            "weight_decay": 0.1,
            "test_pooler": "avg_top2",
        },
    ],
    "rankcse": [{"teachers": ["TINY"]}, {"teachers": ["TINY"], "neighbours": 3, "dropout": 0.0}],
    "sncse": [{"negations": "NEGATIONS"}],
    "arccse": [{"triplet_min_length": 4}],
    "mixcse": [{"suppressed": "remove"}],
    "mocose": [{"queue_size": 12, "queue_start": 4}, {"train_target_projection": True}],
    "compcse": [
        {"partitions": 3, "aggregation": "concat-project", "compose": "both"},
        {"subsampling": "subsuming", "d0": 16},
    ],
    "hicl": [
        {"base": "esimcse", "slicing_length": 6, "queue_size": 12, **SHORT},
        {"base": "sncse", "slicing_length": 6, "beta": 0.1, "negations": "NEGATIONS", **SHORT},
    ],
    "whitenedcse": [{"positives": 4, "sgw_copies": 2, "test_head": True}, {"whitening": "zca"}],
    "dclr": [
        {"complementary_model": "TINY", "phi": 0.5, "noise_times": 1.5},
        {
            "complementary_model": "TINY",
            "form": "infonce",
            "complementary_dropout": True,
            "pooling_layer": False,
        },
    ],
    "pcl": [
        {},
        {"peer": "fixed", "fixed_peer": "BACKBONE", "peer_pooling": "cls", "augmentations": ["rp"]},
        {"peer": "none", "augmentations": [], "gradient_accumulation": 2},
    ],
    "diffcse": [
        {"generator": "GENERATOR"},
        {
            "generator": "GENERATOR",
            "projection": "tanh",
            "replaced": "masked",
            "rtd_over": "real",
            "condition_before_projection": True,
            "gradient_accumulation": 2,
        },
    ],
    "untrained": [{"whitening": True, "whitening_sentences": 400}],
}
"""Settings to try of a method, and those without a default; without an entry, its defaults. TINY
becomes the folder of a tiny encoder, BACKBONE that of the backbone, GENERATOR that of a masked
language model with its word pieces, NEGATIONS a file."""
SICKR = {"dev": {"checkpoint": "sickr", "search": "sickr", "also": []}}
"""The smaller dev set alone: encoding it is most of the time that these tests take."""
BOTH_DEV_SETS = "simcse"
"""The method that is tried with all dev sets."""
CASES = {
    "-".join([backbone, name, *map(str, variant)]): (backbone, name, variant)
    for name in available_methods()
    for place, variant in enumerate(VARIANTS.get(name, [{}]))
    # The first of a method's variants is tried on both families of encoders.
    for backbone in ("tiny_bert", "tiny_roberta")[place > 0 :]
}


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Any]:
    """What the names in `VARIANTS` become."""
    negations = tmp_path_factory.mktemp("negations") / "builtin.tsv"
    negations.write_text("".join(f"{s}\tNot {s}\n" for s in builtin_corpus()), encoding="utf-8")
    return {"TINY": str(tiny_bert), "NEGATIONS": str(negations)}


@pytest.fixture(scope="session")
def teacher_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def settled(value: Any, places: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [settled(entry, places) for entry in value]
    return places.get(value, value) if isinstance(value, str) else value


@pytest.fixture(
    scope="session",
    params=[
        # One process trains it, for all checks.
        pytest.param(case, id=name, marks=pytest.mark.xdist_group(name))
        for name, case in CASES.items()
    ],
)
def trained(
    request: pytest.FixtureRequest,
    places: dict[str, Any],
    tiny_bert: Path,
    tiny_roberta: Path,
    tmp_path_factory: pytest.TempPathFactory,
    teacher_cache: None,
    masked_lm: Callable[[Path], Path],
) -> TrainedOnce:
    place, name, variant = request.param
    folder = {"tiny_bert": tiny_bert, "tiny_roberta": tiny_roberta}[place]
    backbone = {"backbone": str(folder)}
    known = places | {"BACKBONE": str(folder), "GENERATOR": str(masked_lm(folder))}
    own = {key: settled(value, known) for key, value in variant.items()}
    dev = {} if name == BOTH_DEV_SETS else SICKR
    return train_once(name, backbone | dev | own, folder=tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(check: Callable[[TrainedOnce], None], trained: TrainedOnce) -> None:
    check(trained)
