import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

import click
import doc_api
import doc_baselines
import pytest
from doc_blocks import ERROR_RATES, LANGUAGES, PAGES, ROOT, Block, blocks, read_parts
from doc_world import (
    QUICKSTART,
    agrees,
    page_world,
    run_python,
    scripts,
    shared_build,
    true_body,
    write_file,
)
from failing import failing
from processes import python
from ruamel.yaml import YAML

from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.spec import SweepSpec

TRIED_WHOLE = (ROOT / "docs" / "own-method.md", ROOT / "docs" / "importing.md")
"""Pages whose scripts have tests of their own: test_contributing.py and test_recipes.py."""
README = ROOT / "README.md"
DEAR = ROOT / "docs" / "papers.md"
FOLDERS = ("methods", "platform", "dashboards", "sweeps", "tests", "docs")


@cache
def every_block() -> list[Block]:
    return [
        block
        for page in PAGES
        for block in blocks(page)
        if page not in TRIED_WHOLE or block.language in ("console", "sh", "text")
    ]


def of_language(language: str) -> list[Block]:
    return [block for block in every_block() if block.language == language]


def failing_blocks(test: Callable[[Block], object], language: str) -> dict[str, str]:
    named = {block.name: block for block in of_language(language)}
    return failing(lambda name: test(named[name]), named)


def trains(block: Block) -> bool:
    """Whether a script starts Ray, which takes minutes."""
    return "from ray import" in block.body or "run_sweep(" in block.body


@pytest.mark.parametrize(
    "whole", [pytest.param(False, id="quick"), pytest.param(True, marks=pytest.mark.slow, id="all")]
)
def test_commands_print_what_the_page_shows(whole: bool) -> None:
    """And scripts run: the README's, and under the slow mark those of all pages."""

    def try_page(page: Path) -> None:
        runs = page not in TRIED_WHOLE and (whole or page == README)
        with page_world(shared_build()):
            for block in blocks(page):
                if block.file is not None:
                    write_file(block)
                if block.language == "console":
                    check(block)
                if block.language == "python" and runs and not trains(block):
                    run_python(block)

    shown = {block.page for block in every_block() if block.language in ("console", "python")}
    assert not failing(try_page, sorted(shown if whole else shown - {DEAR}))


def check(block: Block) -> None:
    """Compare; of encoders, the last digit depends on the processor."""
    encodes = block.body.startswith("$ cse-evaluate")
    true = true_body(block)
    if not (encodes and agrees(block.body, true, tolerance=0.05)):
        assert block.body == true, "run: make docs"


@pytest.mark.slow
def test_scripts_with_ray_run() -> None:
    """Each in a process of its own: Ray reads whether it wants a token once in a process."""

    def run(block: Block) -> None:
        with page_world(shared_build()):
            assert not trains(block) or python(block.body).stdout

    assert not failing_blocks(run, "python")


def test_yaml_is_a_sweep_file_or_fits_into_one(tmp_path: Path) -> None:
    """A block that names its file is read by the commands below it."""

    def load(block: Block) -> None:
        if block.file is not None:
            commands = [*of_language("console"), *of_language("sh")]
            assert any(block.file in other.body for other in commands)
        elif re.search(r"^(sweep|stages):", block.body, re.MULTILINE):
            (tmp_path / "sweep.yaml").write_text(block.body)
            assert load_sweep(tmp_path / "sweep.yaml").stages
        else:
            part = YAML(typ="safe").load(block.body)
            overrides = [f"{key}={json.dumps(value)}" for key, value in part.items()]
            assert load_sweep(ROOT / "sweeps" / "rankcse.yaml", overrides=overrides).stages

    assert not failing_blocks(load, "yaml")


def test_commands_to_copy_have_options_that_exist() -> None:
    known, makefile = scripts(), (ROOT / "Makefile").read_text()

    def read(block: Block) -> None:
        for name, *arguments in command_lines(block.body):
            if name.startswith("cse-"):
                parse(known[name], name, arguments)
            if name == "make":
                assert f"\n{arguments[0]}:" in makefile

    assert not failing_blocks(read, "sh")


def test_configurations_to_copy_are_on_the_board_that_the_pages_show() -> None:
    configuration = re.compile(r"\b\w+@[0-9a-f]{8,}")
    shown = {
        found for block in of_language("console") for found in configuration.findall(block.body)
    }
    for name in ("leaderboard.md", "trials.md"):
        copied = set(configuration.findall((ROOT / "docs" / name).read_text(encoding="utf-8")))
        assert copied and copied <= shown, name


def test_every_help_has_examples_that_can_be_copied() -> None:
    known = scripts()
    contexts = {n: one for name in sorted(known) for n, one in contexts_below(name, known[name])}

    def read(command: str) -> None:
        examples = re.split(r"Examples?:\n", contexts[command].command.help or "")[1]
        lines = [words for words in command_lines(examples) if words[0].startswith("cse-")]
        assert any(shlex.join(words).startswith(command) for words in lines)
        for name, *arguments in lines:
            parse(known[name], name, arguments)

    assert not failing(read, contexts)


def contexts_below(
    name: str, command: click.Command, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    """A command and its subcommands, by their whole names."""
    options = command.context_settings.get("help_option_names")
    own = name.split()[-1]
    context = click.Context(command, parent=parent, info_name=own, help_option_names=options)
    yield name, context
    for sub, found in getattr(command, "commands", {}).items():
        yield from contexts_below(f"{name} {sub}", found, context)


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of each command, without what a shell adds before and after them."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) or [""]
        while "=" in words[0] and words[1:]:  # VARIABLE=value before the command
            words = words[1:]
        yield list(takewhile(lambda word: word not in ("|", "<"), words))


def parse(
    command: click.Command, name: str, arguments: list[str], parent: click.Context | None = None
) -> None:
    """Read a command line as the command does, without running it."""
    with command.make_context(name, arguments, parent) as context:
        rest = [*context._protected_args, *context.args]
        if isinstance(command, click.Group) and rest:
            sub, found, further = command.resolve_command(context, rest)
            assert found is not None and sub is not None
            parse(found, sub, further, context)


def test_blocks_have_a_language_that_says_how_they_are_checked() -> None:
    known = {"make", *scripts()}

    def check_page(page: Path) -> None:
        for block in blocks(page):
            assert block.language in LANGUAGES, block.name
            if block.language == "console":
                commands = {step.command.split()[0] for step in block.steps}
                assert block.body.startswith("$ ") and commands <= known, block.name
        assert page.read_text().count("```") == 2 * len(blocks(page))

    assert not failing(check_page, PAGES)


def test_links_lead_somewhere_and_paths_in_the_text_exist() -> None:
    """Paths of this repository: those that begin with one of its folders and hold no capitals."""

    def check_page(page: Path) -> None:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if "://" not in target:
                path, _, anchor = target.partition("#")
                there = (page.parent / path).resolve() if path else page
                assert there.exists(), target
                assert not anchor or anchor in anchors(there), target
        for path in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", prose(page)):
            if not re.search(r"[A-Z]{3}", path.removesuffix("README.md")):
                assert (ROOT / path).exists(), path

    assert not failing(check_page, PAGES)


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub names the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


def test_pages_name_every_page_picture_key_and_command() -> None:
    text, sweep_files = README.read_text(), (ROOT / "docs" / "sweep-files.md").read_text()
    assert len(text.splitlines()) <= 150
    pages = [f"({page.relative_to(ROOT).as_posix()})" for page in PAGES[1:]]
    keys = [f"`{key}`" for key in SweepSpec.model_fields]
    pictures = [f"images/{file.name})" for file in (ROOT / "docs" / "images").iterdir()]
    known = scripts()
    commands = [n for name in sorted(known) for n, _ in contexts_below(name, known[name])]
    shown = "".join(prose(page) for page in PAGES)
    written = "".join(page.read_text() for page in PAGES)
    for words, where in (
        (pages, text), (keys, sweep_files), (pictures, shown), (commands, written)
    ):  # fmt: skip
        assert words and not [word for word in words if word not in where]


def test_generated_parts_are_written_from_the_code_and_records_as_they_stand() -> None:
    stale = [page for page, text in doc_api.filled_pages().items() if page.read_text() != text]
    assert not stale, "run: make docs"
    shown = set(re.findall("<!-- begin (.*) -->", doc_api.STATISTICS.read_text()))
    assert shown == read_parts(ERROR_RATES).keys()


def test_scores_of_the_untrained_encoder_are_those_of_its_recorded_sweep() -> None:
    for page, text in doc_baselines.filled_pages().items():
        assert text == page.read_text(), "run: make docs"


@pytest.mark.slow
def test_the_quickstart_prints_what_was_recorded(tmp_path: Path) -> None:
    """Numbers agree to a point: the last digits of a training depend on the processor."""
    (tmp_path / "sweeps").symlink_to(ROOT / "sweeps")
    cse_sweep = str(Path(sys.executable).with_name("cse-sweep"))
    done = subprocess.run(
        [cse_sweep, "sweeps/quickstart.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    now, then = (results(text) for text in (done.stdout, QUICKSTART.read_text()))
    assert now.keys() == then.keys()
    for trial, value in then.items():
        assert now[trial] == pytest.approx(value, abs=1), trial


def results(text: str) -> dict[tuple[str, ...], float]:
    """Settings of each trial of the quickstart, and its dev score."""
    lines = re.findall(r"^trial +(\d+) COMPLETE dev +([\d.]+) at step \d+ +(.*)$", text, re.M)
    return {(number, settings): float(dev) for number, dev, settings in lines}
