"""The generated parts of pages: the questions of a leaderboard and what they return in docs/api.md,
and the recorded error rates in docs/statistics.md.

Launch: make docs, which writes them anew, the tables of doc_baselines.py, and the console blocks
of all pages.
"""

import inspect
import re
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import doc_baselines
from doc_blocks import ERROR_RATES, ROOT, fill_generated, read_parts
from doc_world import rewrite_all

from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.records import DevPoint, Estimate, LeaderboardRow, Trial
from cse_platform.leaderboard.statistics.compare import Comparison, Limits
from cse_platform.leaderboard.sweeps import SweepOverview
from cse_platform.leaderboard.trial_details import TrialDetails

API, STATISTICS = ROOT / "docs" / "api.md", ROOT / "docs" / "statistics.md"
RECORDS = (
    LeaderboardRow, Estimate, Comparison, Limits, SweepOverview, Trial, TrialDetails, DevPoint,
)  # fmt: skip
"""What most questions return, outermost first."""


def questions() -> str:
    """Every public method of a leaderboard: its arguments, what it returns, and what it answers."""
    rows = ["| question | returns | answer |", "|---|---|---|"]
    for name, method in inspect.getmembers(Leaderboard, inspect.isfunction):
        if not name.startswith("_"):
            signature = inspect.signature(method)
            names = list[str]()
            for parameter in list(signature.parameters.values())[1:]:
                names += ["*"] * (parameter.kind == parameter.KEYWORD_ONLY and "*" not in names)
                names.append(parameter.name)
            arguments = ", ".join(names)
            returned = _type_text(signature.return_annotation).replace("|", "\\|")
            rows.append(f"| `{name}({arguments})` | `{returned}` | {_first_sentence(method)} |")
    return "".join(f"{row}\n" for row in rows)


def records() -> str:
    """The fields and properties of each record."""
    lines = []
    for record in RECORDS:
        parts = [f"`{field.name}`" for field in fields(record)]
        given = inspect.getmembers(record, lambda each: isinstance(each, property))
        parts += [f"`{name}`" for name, _ in given]
        lines.append(f"- **`{record.__name__}`**: {_first_sentence(record)} {', '.join(parts)}.\n")
    return "".join(lines)


def _first_sentence(thing: Any) -> str:
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    return re.match(r".*?\.(?= |$)|.*", text)[0]  # type: ignore[index]


def _type_text(annotation: Any) -> str:
    """The text of a type, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b\w+\.(?=\w)", "", text)


def filled_pages() -> dict[Path, str]:
    """Each page that has generated parts, with these written anew."""
    parts = {
        API: {"questions": questions(), "records": records()},
        STATISTICS: read_parts(ERROR_RATES),
    }
    return {
        page: fill_generated(page.read_text(encoding="utf-8"), own, page=page)
        for page, own in parts.items()
    }


if __name__ == "__main__":
    for page, text in (filled_pages() | doc_baselines.filled_pages()).items():
        page.write_text(text, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        rewrite_all(Path(folder))
