"""The short form of `make year`: after all upkeep, what people see is what it was."""

from random import Random

import pytest
from year import live_through, opened_lab


@pytest.mark.slow
@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def test_upkeep_of_months_changes_nothing_that_people_see(database: str) -> None:
    with opened_lab(database) as lab:
        live_through(lab, sweeps=8, months=4, dice=Random(1))
    assert {"upgrade", "archive", "unarchive", "delete", "clean", "backup", "restore"} <= set(
        lab.seconds
    )
