"""What the commands, the page and the stores show of the recorded sweeps, as texts to compare.

Launch: make golden, which writes `outputs/` anew. The sweeps are those of the pages of docs/.
"""

import html
import json
import re
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from doc_world import HOME, build, output, page_world
from page_text import figures

from cse_platform.tracking.events import EVENT

OUTPUTS = Path(__file__).parent / "outputs"
STORE = Path("runs") / "leaderboard.db"
BOARDS = {
    "board": "",
    "board-all": "--all",
    "board-published": "--backbone mini,bert-base --published",
    "board-transfer": "--tasks transfer",
    "compare": "compare rankcse simcse",
    "compare-dev": "compare rankcse simcse --on dev",
    "compare-all": "compare",
    "paper": "paper rankcse 2",
}
OTHER_FORMATS = {
    "board": "json html",
    "board-published": "csv",
    "compare": "json",
    "compare-dev": "json markdown",
    "compare-all": "json",
    "paper": "latex",
}
"""Beside a table: each document in JSON once; each format has its own tests, too."""
COMMANDS = {
    "paper-json": "cse-leaderboard paper whitenedcse 5 --json",
    "search": "cse-leaderboard search quickstart-simcse",
    "search-json": "cse-leaderboard search quickstart-simcse --json",
    "show": "cse-leaderboard show {trial}",
    "show-json": "cse-leaderboard show {trial} --json",
    "status": "cse-sweep status",
    "status-json": "cse-sweep status --json",
    "status-sweep": "cse-sweep status quickstart-simcse",
    "logs": "cse-sweep logs quickstart-simcse",
    "dry-run": "cse-sweep sweeps/quickstart.yaml --dry-run --runs elsewhere",
    "describe": "cse-sweep describe",
    "describe-method": "cse-sweep describe rankcse",
    "refused-method": "cse-leaderboard --method rankce",
    "refused-compare": "cse-leaderboard compare rankcse nothing",
    "refused-sweep": "cse-leaderboard search quickstart-simce",
}
PAGES = {
    "page-board": "/",
    "page-sweeps": "/sweeps",
    "page-geometry": "/geometry",
    "page-sweep-teacher": "/sweeps/quickstart-rankcse",
    "page-trial": "/trials/{trial}",
    "page-compare": "/compare?rows=rankcse&rows=simcse",
}


def write_outputs() -> None:
    """Write the texts of `outputs/` anew, and delete those that nothing makes any more."""
    with tempfile.TemporaryDirectory() as folder:
        shown = dict(read_outputs(build(Path(folder))))
    for file in OUTPUTS.glob("*.txt"):
        if file.stem not in shown:
            file.unlink()
    for name, text in shown.items():
        (OUTPUTS / f"{name}.txt").write_text(text, encoding="utf-8")


def read_outputs(built: Path, *, without: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each command, each view of the page and each shape of a store.

    Args:
        built: the prepared checkout of the pages.
        without: names to leave out.
    """
    with page_world(built):
        trial = _best_trial()
        for board, options in BOARDS.items():
            for format_ in ("table", *OTHER_FORMATS.get(board, "").split()):
                name = f"{board}-{format_}"
                if name not in without:
                    text = output(f"cse-leaderboard {options} --format {format_}")
                    yield name, _without_circumstances(text)
        yield from _read_page(trial)
        for name, command in COMMANDS.items():
            yield name, _without_circumstances(output(command.format(trial=trial)))
        yield "schema", _read_schema()
    yield "events", _dump_json(_without_prose(EVENT.json_schema()))


def _read_page(trial: str) -> Iterator[tuple[str, str]]:
    from cse_dashboards.page.app import create_app

    client = create_app(f"sqlite:///{STORE.absolute()}").test_client()
    for name, address in PAGES.items():
        answer = client.get(address.format(trial=trial), headers={"X-Part": "1"})
        assert answer.status_code == 200, (address, answer.text)
        text = _as_text(answer.text) + _dump_json(_shapes(figures(answer.text)))
        yield name, _without_circumstances(text)


def _as_text(source: str) -> str:
    """The words of a view, a line for each of its elements, with the places its links lead to."""
    source = re.sub(r'<script type="application/json">.*?</script>', "", source, flags=re.DOTALL)
    source = re.sub(r'<a [^>]*?href="([^"]*)"[^>]*>', r"[\1] ", source)
    lines = re.sub(r"<[^>]+>", "\n", source).splitlines()
    return html.unescape("\n".join(" ".join(line.split()) for line in lines if line.strip())) + "\n"


def _without_circumstances(text: str) -> str:
    """Replace what differs between runs and machines: paths, free disk, times, last digits."""
    folder = str(Path.cwd())
    text = text.replace(folder, HOME).replace(folder.replace("_", r"\_"), HOME)
    text = re.sub(r"[\d.]+ GB are free", "… GB are free", text)
    text = re.sub(r"\b\d+\.\d{12,}(e-\d+)?", lambda number: f"{float(number[0]):.10g}", text)
    return re.sub(r"\b\d+ (second|minute|hour|day|week|month|year)s? ago\b", "… ago", text)


def _shapes(drawn: dict[str, object]) -> dict[str, object]:
    """Each figure without its style: the names of its traces and how many points they have."""
    return {
        name: [
            {key: trace.get(key) for key in ("type", "name")}
            | {"points": len(trace.get("x") or trace.get("values") or trace.get("z") or ())}
            for trace in figure["data"]
        ]
        for name, figure in drawn.items()
    }


def _best_trial() -> str:
    with closing(sqlite3.connect(STORE)) as store:
        shown = "trials JOIN attempts ON attempts.id = shown_attempt WHERE state = 'COMPLETE'"
        query = f"SELECT key FROM {shown} ORDER BY best_value DESC, key"
        (key,) = store.execute(query).fetchone()
    return str(key)[:12]


def _read_schema() -> str:
    with closing(sqlite3.connect(STORE)) as store:
        statements = store.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return "\n".join(sorted(_sort_lines(statement) for (statement,) in statements))


def _sort_lines(statement: str) -> str:
    """A statement with its columns and constraints in one order."""
    first, *lines = statement.splitlines()
    return "\n".join([first, *sorted(line.rstrip(", ") for line in lines), ""])


def _without_prose(schema: object) -> object:
    if isinstance(schema, dict):
        kept = {key: value for key, value in schema.items() if key not in ("description", "title")}
        return {key: _without_prose(value) for key, value in kept.items()}
    return [_without_prose(item) for item in schema] if isinstance(schema, list) else schema


def _dump_json(content: object) -> str:
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_outputs()
