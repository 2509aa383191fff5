"""docs/commands.md: the help of every command of ours."""

from collections.abc import Iterator

import click
from doc_blocks import ROOT
from doc_world import scripts

PAGE = ROOT / "docs" / "commands.md"
WIDTH = 100
HEAD = """# Commands and their options

Written by `make docs` from the commands' own `--help`; do not edit.
"""


def commands() -> Iterator[tuple[str, click.Context]]:
    """Every command and subcommand, by its whole name."""
    for name, script in sorted(scripts().items()):
        yield from _below(name, script, None)


def _below(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Context]]:
    context = click.Context(
        command,
        parent=parent,
        info_name=name.split()[-1],
        terminal_width=WIDTH,
        **{k: v for k, v in command.context_settings.items() if k == "help_option_names"},
    )
    yield name, context
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _below(f"{name} {sub}", found, context)


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name, context in commands():
        level = "##" if " " not in name else "###"
        parts.append(f"{level} {name}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)
