"""Every command of ours, with its help."""

from collections.abc import Iterator

import click
from doc_world import scripts


def commands() -> Iterator[tuple[str, click.Context]]:
    for name, script in sorted(scripts().items()):
        yield from _below(name, script, None)


def _below(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Context]]:
    context = click.Context(
        command,
        parent=parent,
        info_name=name.split()[-1],
        **{k: v for k, v in command.context_settings.items() if k == "help_option_names"},
    )
    yield name, context
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _below(f"{name} {sub}", found, context)
