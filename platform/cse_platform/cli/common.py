"""Options and decorators that all commands share, including the exit codes of errors."""

import logging
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import wraps
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click
from click.core import ParameterSource
from click.types import StringParamType

from cse_methods.errors import CseError, DataError
from cse_platform.databases import expand_url, sqlite_url
from cse_platform.errors import PublishedError
from cse_platform.gc_settings import collect_rarely
from cse_platform.launch import RUNS
from cse_platform.secrets import mask_text, mask_url
from cse_platform.signals import INTERRUPTED, exit_code, ignore_both
from cse_platform.standard_streams import EchoHandler, echo, unwritable_dropped

if TYPE_CHECKING:
    from cse_platform.presentation.formats import Format
    from cse_platform.presentation.tables import Document

CONTEXT = {"help_option_names": ["-h", "--help"]}

_P = ParamSpec("_P")
_R = TypeVar("_R")


class UserPath(click.Path):
    """A path, given as an argument, an option or a variable; `~` and `${NAME}` are expanded.

    Args:
        limits: those of `click.Path`.
    """

    def __init__(self, **limits: bool) -> None:
        super().__init__(path_type=Path, **limits)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(_expand_written(self, str(value), param, ctx), param, ctx)


class UserUrl(StringParamType):
    """A URL of a store; `~` and `${NAME}` are expanded."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _expand_written(self, value, param, ctx)


def _expand_written(
    kind: UserPath | UserUrl, value: str, param: click.Parameter | None, ctx: click.Context | None
) -> str:
    try:
        return expand_url(value)
    except DataError as error:
        kind.fail(str(error), param, ctx)


def shows_errors(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Print expected errors as one line and exit with 1; let bugs propagate.

    Ctrl-C exits with 130, SIGTERM with 143. Characters that the output's encoding lacks are written
    as escapes, such as `\\u2248`. What cannot be written to standard error is dropped. Standard
    output can be data, so it is dropped only while a sweep runs; else it is an error.
    """

    @wraps(command)
    @unwritable_dropped("stderr")
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        collect_rarely()
        logging.lastResort = EchoHandler(logging.WARNING)
        if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors != "replace":
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return command(*args, **kwargs)
        except CseError as error:
            echo(f"Error: {mask_text(str(error))}", err=True)
            raise click.exceptions.Exit(1) from error
        except click.UsageError as error:  # it repeats what was typed
            raise click.UsageError(mask_text(error.format_message()), error.ctx) from error
        except KeyboardInterrupt:
            ignore_both()  # only cleanup remains
            goes_on = click.get_current_context().find_root().info_name == "cse-sweep"
            echo(INTERRUPTED if goes_on else "Interrupted; run the same command again.", err=True)
            raise click.exceptions.Exit(exit_code()) from None

    return run


class StrictCommand(click.Command):
    """A command that refuses an option that takes one value and is given several times."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self._refuse_repeated_options(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_repeated_options(self, ctx: click.Context, args: Sequence[str]) -> None:
        taking_one, readers = list[click.Parameter](), list[click.Parameter]()
        for param in self.get_params(ctx):
            reader = copy(param)
            if isinstance(reader, click.Option) and not (
                reader.multiple or reader.is_flag or reader.count
            ):
                reader.multiple = True  # the parser then keeps every value
                taking_one.append(reader)
            readers.append(reader)
        parser = click.Command(None, params=readers, add_help_option=False).make_parser(ctx)
        typed, _, _ = parser.parse_args([*args])
        for param in taking_one:
            values = typed.get(param.name, [])
            if len(values) > 1:
                times = "twice" if len(values) == 2 else f"{len(values)} times"
                listed = ", ".join(value for value in values if isinstance(value, str))
                ctx.fail(
                    f"{param.opts[0]} is given {times} ({mask_text(listed)}); it takes one value"
                )


class ShowingGroup(StrictCommand, click.Group):
    """A group whose commands show their errors as `shows_errors` says."""

    command_class = StrictCommand

    def invoke(self, ctx: click.Context) -> Any:
        return shows_errors(super().invoke)(ctx)


class CommandGroup(ShowingGroup):
    """A group whose help lists its commands in sections.

    Options before a subcommand are passed on to it.

    Args:
        sections: the names of all its commands, by the title of their section.
        attributes: those of `click.Group`.
    """

    def __init__(self, *, sections: Mapping[str, str], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.sections = {title: names.split() for title, names in sections.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self.sections.items():
            # Whole first sentences, which the formatter wraps.
            rows = [(name, self.commands[name].get_short_help_str(sys.maxsize)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.put_command_first(ctx, args))

    def put_command_first(self, context: click.Context, args: list[str]) -> list[str]:
        """Move options before a subcommand behind its name if it or the group knows them."""
        for word in [word for word in args if word in self.commands]:
            for reader in (self.commands[word], self):
                options = [
                    p for p in reader.params if isinstance(p, click.Option) and not p.is_eager
                ]
                parser = click.Command(None, params=[*options]).make_parser(context)
                parser.allow_interspersed_args = False
                with suppress(click.UsageError):
                    _, remaining, _ = parser.parse_args(list(args))
                    if remaining and remaining[0] == word:
                        return [word, *args[: len(args) - len(remaining)], *remaining[1:]]
        return args


def without_subcommand(command: Callable[..., None]) -> Callable[..., None]:
    """Make a group's function do nothing if a subcommand follows."""

    @wraps(command)
    def call(**given: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            command(**given)

    return call


def version_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add `--version`, which prints the version of the installed package."""
    message = "%(prog)s %(version)s"
    return click.version_option(package_name="cse-platform", message=message)(command)


@dataclass(frozen=True)
class StoreOptions:
    """The leaderboard and the runs folder that `--runs`, `--store` and CSE_STORE name."""

    runs: Path | None
    store: str | None
    is_store_typed: bool
    """Whether `--store` was typed, rather than taken from the environment."""

    @property
    def folder(self) -> Path:
        return self.runs or RUNS

    @property
    def url(self) -> str:
        """The leaderboard's URL for a command that needs it alone; `--runs` excludes `--store`.

        A leaderboard in the folder of `--runs` wins over CSE_STORE.
        """
        if self.runs is not None and self.is_store_typed:
            raise click.UsageError("--runs and --store name two leaderboards; give only one")
        if self.runs is not None and (own := self.runs / "leaderboard.db").exists():
            return sqlite_url(own)
        return self.url_beside_runs

    @property
    def url_beside_runs(self) -> str:
        """The leaderboard's URL for a command that needs the runs folder too.

        As for a sweep: `--store` or CSE_STORE names it, else it is in the runs folder.
        """
        if self.store is not None:
            return self.store
        return sqlite_url(self.folder / "leaderboard.db")

    @property
    def options(self) -> str:
        """The `--runs` or `--store` option as typed, to repeat it in a suggested command.

        The text starts with a blank and has no password; it is empty if neither was typed.
        """
        if self.runs is not None:
            return f" --runs {shlex.quote(str(self.runs))}"
        is_named = self.store is not None and self.is_store_typed
        return f" --store {shlex.quote(mask_url(self.store or ''))}" if is_named else ""


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *paragraphs: str, title: str = ""
) -> None:
    """Print a table, and paragraphs below it."""
    from cse_platform.presentation.tables import Paragraph, text_table
    from cse_platform.presentation.terminal import print_page

    print_page([text_table(heads, rows, title=title), *map(Paragraph, paragraphs)])


def print_document(document: "Document", *, format: "Format", wide: bool = False) -> None:
    """Print a document; on a terminal, the cells of wide tables are not folded."""
    if format == "table":
        from cse_platform.presentation.tables import Paragraph
        from cse_platform.presentation.terminal import print_page

        hint = [Paragraph(document.hint)] if document.hint else []
        print_page([*document.tables(), *hint], wide=wide)
    else:
        from cse_platform.presentation.formats import render_document  # imports Jinja

        echo(render_document(document, format=format), nl=False)


def print_json(value: Any) -> None:
    from cse_platform.presentation.tables import to_json

    echo(to_json(value), nl=False)


def store_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add `--runs` and `--store`, which the command gets as `stores`."""

    @click.option(
        "--runs",
        type=UserPath(file_okay=False),
        help=f"Runs folder of cse-sweep.  [default: {RUNS}]",
    )
    @click.option(
        "--store",
        type=UserUrl(),
        envvar="CSE_STORE",
        show_envvar=True,
        help="SQL database of the leaderboard, if it is not in the runs folder: sqlite:///FILE or "
        "postgresql+psycopg://USER@HOST/DATABASE.",
    )
    @wraps(command)
    def call(*args: Any, runs: Path | None, store: str | None, **given: Any) -> _R:
        stores = StoreOptions(runs, store, is_typed("store"))
        return command(*args, stores=stores, **given)

    return call


def is_typed(option: str) -> bool:
    """Whether the command line gives an option, rather than a variable or its default."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


_TEXT_FILTERS = ("backbone", "method", "sweep", "tag", "identity", "hardware")


def filter_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add the options that select trials and rows, which the command gets as `filters`."""

    @click.option(
        "--backbone", help="Only rows with this backbone, or with several: mini,bert-base."
    )
    @click.option("--method", help="Only rows of this method, e.g. rankcse.")
    @click.option("--sweep", help="Only trials of this sweep.")
    @click.option(
        "--tag", help="Only trials with this tag, or whose configuration or sweep has it."
    )
    @click.option("--identity", help="Only rows whose dev or evaluation identity begins with this.")
    @click.option(
        "--hardware", help="Only trials on machines whose GPU, CPU or host name contains this."
    )
    @click.option(
        "--since",
        metavar="TIME",
        help="Only trials that finished at this time or later: 2026-11-29 or 2026-11-29T10:36, in "
        "UTC unless it ends with an offset such as +05:30.",
    )
    @wraps(command)
    def call(*args: Any, since: str | None, **given: Any) -> _R:
        from cse_platform.leaderboard.filters import Filters, parse_since

        texts = {name: given.pop(name) for name in _TEXT_FILTERS}
        try:
            moment = parse_since(since) if since else None
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="'--since'") from None
        return command(*args, filters=Filters(**texts, since=moment), **given)

    return call


def tasks_option(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Add `--tasks`, a family of test scores."""
    option = click.option(
        "--tasks",
        type=_Family(("sts", "transfer", "ranking", "long", "clean", "mteb", "own")),
        help="Family of test scores to show; or a benchmark: 'benchmark:MTEB(eng, v2)'.",
    )
    return option(command)


class _Family(click.Choice[str]):
    """A family of test scores, or a benchmark, whose name only the leaderboard knows."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value.startswith("benchmark:"):
            return value
        from cse_platform.leaderboard.families import BOARD_FAMILIES

        for name, family in BOARD_FAMILIES.items():
            if value in (*family.columns, *family.averages) and name in self.choices:
                self.fail(f"{value} is of the family {name}; write --tasks {name}", param, ctx)
        return super().convert(value, param, ctx)


_FORMATS = ("table", "json", "csv", "markdown", "latex", "html")


def format_options(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add `--format` and `--json`; the command gets one `format`, and two are a usage error."""

    @click.option(
        "--format",
        type=click.Choice(_FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
    @wraps(command)
    def call(*args: Any, format: str, as_json: bool, **given: Any) -> _R:
        if as_json and is_typed("format") and format != "json":
            raise click.UsageError(f"json and {format} are two formats; choose one")
        return command(*args, format="json" if as_json else format, **given)

    return call


def published_option(command: Callable[..., _R]) -> Callable[..., _R]:
    """Add `--published-file`, which can be given several times; note what is doubtful in it."""

    @click.option(
        "--published-file",
        "published_files",
        type=UserPath(exists=True, dir_okay=False),
        multiple=True,
        envvar="CSE_PUBLISHED",
        show_envvar=True,
        help="CSV file with more published numbers; can be repeated.",
    )
    @wraps(command)
    def call(*args: Any, published_files: tuple[Path, ...], **given: Any) -> _R:
        for file in published_files:
            _note_doubtful_numbers(file)
        return command(*args, published_files=published_files, **given)

    return call


def _note_doubtful_numbers(file: Path) -> None:
    from cse_platform.leaderboard.published.rows import find_doubtful_numbers

    with suppress(PublishedError):  # which the command itself raises where it reads the file
        if doubts := find_doubtful_numbers(file):
            more = f" (and {len(doubts) - 1} more)" * (len(doubts) > 1)
            echo(f"note: {file}, {doubts[0]}{more}", err=True)
