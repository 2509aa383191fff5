"""The code blocks of the pages: read, run, compared and written anew.

What a fence's language says of its block:

- `console`: commands with their real output. Tests run each command in the prepared folder of
  `doc_world` and compare. A comment before the fence, `<!-- lines 1-8, 20- -->`, keeps these lines
  of the output; each gap is a line with `…`.
- `yaml`: a sweep file, or, with its name in a first comment (`# mine.yaml`), a file that the
  commands after it read.
- `python`: a script. Tests run it in the prepared folder, too.
- `toml`: a file of the package in own-method.md, which test_contributing.py tries whole.
- `sh`: commands to copy. They show no output; tests check that the options of ours exist.
- `text`: what was printed once, on the machine and the day that the page names. Not checked.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NOT_IN_DOCS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "dashboards/README.md")
PAGES = [*(ROOT / name for name in _NOT_IN_DOCS), *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = ("console", "yaml", "toml", "python", "sh", "text")
GAP = "…"

ERROR_RATES = Path(__file__).parent / "recorded" / "error-rates.md"
"""The tables of docs/statistics.md, recorded by `make bench-statistics`."""

_BLOCK = re.compile(
    r"(?:<!-- lines (?P<lines>[\d, -]+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n?", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A command of a console block and the output that the page shows."""

    command: str
    shown: str


@dataclass(frozen=True)
class Block:
    """A code block; `start` and `end` are the places of its body in the page's text."""

    page: Path
    language: str
    body: str
    lines: str | None
    start: int
    end: int

    @property
    def name(self) -> str:
        """Page and first line."""
        first = self.body.partition("\n")[0].removeprefix("$ ")
        return f"{self.page.relative_to(ROOT)}: {first}"

    @property
    def steps(self) -> list[Step]:
        """The commands of a console block, in order."""
        found = list(_COMMAND.finditer(self.body))
        ends = [*(match.start() for match in found[1:]), len(self.body)]
        return [
            Step(match["command"], self.body[match.end() : end])
            for match, end in zip(found, ends, strict=True)
        ]

    @property
    def file(self) -> str | None:
        """The file name in the first comment of a YAML block, where there is one."""
        named = re.match(r"# ([\w./-]+\.ya?ml)$", self.body.partition("\n")[0])
        return named[1] if named and self.language == "yaml" else None


def blocks(page: Path) -> list[Block]:
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        body = re.sub(rf"^{match['indent']}", "", match["body"], flags=re.MULTILINE)
        place = match.start("body"), match.end("body")
        found.append(Block(page, match["language"], body, match["lines"], *place))
    return found


def excerpt(printed: str, lines: str | None) -> str:
    """What a page shows of an output.

    Args:
        printed: the output; blanks at the ends of its lines are left out.
        lines: the lines to keep, counted from 1, such as `1-3, 7, 20-`; None keeps all.
    """
    every = [line.rstrip() for line in printed.splitlines()]
    while every and not every[-1]:
        every.pop()
    if lines is None:
        return "".join(f"{line}\n" for line in every)
    kept = set[int]()
    for part in lines.split(","):
        begin, dash, end = part.strip().partition("-")
        kept |= {*range(int(begin), (int(end or len(every)) if dash else int(begin)) + 1)}
    shown, last = [], 0
    for number in sorted(kept):
        if number > last + 1:
            shown.append(GAP)
        shown.append(every[number - 1])
        last = number
    if last < len(every):
        shown.append(GAP)
    return "".join(f"{line}\n" for line in shown)


def fill_generated(text: str, parts: Mapping[str, str], *, page: Path) -> str:
    """Write the generated parts of a page anew, each between its markers."""
    for name, part in parts.items():
        pattern = rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)"
        text, count = re.subn(
            pattern, lambda found, part=part: f"{found[1]}{part}{found[2]}", text, flags=re.DOTALL
        )
        assert count == 1, f"{page.name} has no place for {name}"
    return text


def format_parts(parts: Mapping[str, str]) -> str:
    """Format generated parts for a file of their own, each between its markers."""
    return "\n".join(
        f"<!-- begin {name} -->\n{part}<!-- end {name} -->\n" for name, part in parts.items()
    )


def read_parts(file: Path) -> dict[str, str]:
    """Read the parts that `format_parts` wrote; none if there is no file."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = re.finditer(r"<!-- begin (.*) -->\n(.*?)<!-- end \1 -->", text, re.DOTALL)
    return {match[1]: match[2] for match in found}
