"""cse-sweep describe: what can be set of a method, and what its paper chose."""

import click

from cse_platform.cli.common import CONTEXT, shows_errors


@click.command(context_settings=CONTEXT)
@click.argument("methods", nargs=-1, metavar="[METHOD]...")
@click.option("--markdown", "as_markdown", is_flag=True, default=False, help="Print Markdown.")
@shows_errors
def describe(methods: tuple[str, ...], as_markdown: bool) -> None:
    """Show each METHOD's settings: bounds, defaults, the paper's symbols and choices.

    Without METHOD, the methods with a line each; with --markdown, the whole reference.

    \b
    Examples:
        cse-sweep describe
        cse-sweep describe rankcse
    """
    from cse_methods.describe import describe_method
    from cse_methods.registry import available_methods, get_method
    from cse_platform.render.methods_page import methods_overview, methods_page, methods_reference
    from cse_platform.render.terminal import print_page
    from cse_platform.render.text import to_markdown

    found = [describe_method(get_method(name)) for name in methods or available_methods()]
    if as_markdown:
        page = methods_page(found) if methods else methods_reference(found)
        click.echo(to_markdown(page), nl=False)
    else:
        print_page(methods_page(found) if methods else methods_overview(found))
