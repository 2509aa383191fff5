"""What every method owes the platform, whatever its paper says."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from method_variants import VARIANTS, settled

from cse_methods.data.builtin.pairs import builtin_corpus
from cse_methods.registry import available_methods
from cse_methods.testing import CHECKS, TrainedOnce, train_once

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
