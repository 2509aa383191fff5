"""Commands, page and stores show what they showed before, to the character."""

from difflib import unified_diff

import pytest
from doc_world import shared_build
from golden_outputs import OUTPUTS, read_outputs

pytestmark = pytest.mark.xdist_group("tests/documents/test_documents.py")  # one checkout for both
RESAMPLED = ("compare-json", "compare-all-json", "compare-all-table")
"""Seconds each, of the same numbers as another output or a page of docs/ shows."""


@pytest.mark.parametrize(
    "left_out",
    [pytest.param(RESAMPLED, id="quick"), pytest.param((), marks=pytest.mark.slow, id="all")],
)
def test_outputs_are_as_recorded(left_out: tuple[str, ...]) -> None:
    shown = dict(read_outputs(shared_build(), without=left_out))
    recorded = {file.stem: file.read_text(encoding="utf-8") for file in OUTPUTS.glob("*.txt")}
    assert sorted([*shown, *left_out]) == sorted(recorded)
    changes = [
        line
        for name, text in shown.items()
        for line in unified_diff(recorded[name].splitlines(), text.splitlines(), name, "now", n=0)
    ]
    assert not changes, "if the change is meant: make golden, and look at the diff"
