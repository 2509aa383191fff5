"""Prints pages, and shows progress, on a terminal with rich."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType  # noqa: TID251
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from cse_platform.presentation.tables import Emphasis, Page, Table
from cse_platform.standard_streams import escape_controls, lost_output_refused

UNBOUNDED = 100_000
"""Width of a console that never folds, in characters."""
LINES = Box("    \n    \n ── \n    \n ── \n    \n    \n    \n")
"""A box with a line below the head, and between groups of rows."""
SILENCE_SECONDS = 60.0
"""Seconds without output after which a progress line is due."""
STYLES: dict[Emphasis, str] = {"none": "", "best": "bold", "second": "underline"}


class Terminal(Console):
    """A console of rich that shows the control characters of texts as escapes, such as `\\x1b`.

    It moves only on a terminal, even if FORCE_COLOR or TTY_COMPATIBLE makes rich write colours
    elsewhere too.
    """

    def __init__(self, **how: Any) -> None:
        by_rich = Console(**how)
        is_terminal = by_rich.is_terminal and ("force_terminal" in how or by_rich.file.isatty())
        how |= {"color_system": by_rich.color_system, "force_terminal": is_terminal}
        super().__init__(**how, force_interactive=is_terminal and by_rich.is_interactive)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render something into segments, of which rich's own control the terminal."""
        for segment in super().render(renderable, options):
            yield (
                segment if segment.control else segment._replace(text=escape_controls(segment.text))
            )


def print_page(page: Page, *, wide: bool = False, width: int = UNBOUNDED) -> None:
    """Print a page with a blank line between blocks.

    A terminal folds cells that do not fit its width, unless `wide`. Elsewhere tables have at most
    `width`, by default without a limit, paragraphs are lines, and trailing blanks are removed. A
    note shared by several tables is printed only below the first.
    """
    console = Terminal(highlight=False, markup=False, emoji=False)
    if wide or not console.is_terminal:
        console.width = UNBOUNDED if wide else width
    with console.capture() as captured:
        printed_notes: set[str] = set()
        for index, block in enumerate(page):
            if index:
                console.print()
            if isinstance(block, Table):
                if block.title:
                    console.print(block.title, style="bold")
                shown = _make_rich_table(block)
                unbounded = console.options.update(max_width=UNBOUNDED)
                if console.measure(shown, options=unbounded).maximum > console.width:
                    shown = _make_rich_table(block, width=console.width)
                console.print(shown)
                for note in block.notes:
                    if note not in printed_notes:
                        console.print(note)
                printed_notes.update(block.notes)
            else:
                style = "bold" if block.kind == "heading" else ""
                console.print(block.text, style=style, soft_wrap=not console.is_terminal)
    printed = captured.get()
    if not console.is_terminal:
        printed = re.sub(r"(?<! ) +$", "", printed, flags=re.MULTILINE)
    with lost_output_refused():
        sys.stdout.write(printed)
        sys.stdout.flush()


class Silence:
    """Measures the time since the last output, for logs such as those of batch jobs.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._broken = clock()

    def end(self) -> None:
        """Note that something has just been printed."""
        self._broken = self._clock()

    @property
    def is_long(self) -> bool:
        """Whether a progress line is due."""
        return self._clock() - self._broken >= SILENCE_SECONDS


@contextmanager
def progress_lines(what: str) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error as `progress_bar` does; without a terminal, a line a minute.

    Yields:
        Updates the progress, with `description`, `completed` and `total`.
    """
    log = Terminal(stderr=True, highlight=False, markup=False)
    silence = Silence()

    def move(description: str, completed: int, total: int | None) -> None:
        if silence.is_long:
            suffix = "" if total is None else f" of {total}"
            log.print(f"{description}: {completed}{suffix}", soft_wrap=True)
            silence.end()

    with progress_bar(what) as move_bar:
        yield move_bar if log.is_interactive else move


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error if it is a terminal, else nothing.

    Yields:
        Updates the bar, with the arguments of `rich.progress.Progress.update`.
    """
    console = Terminal(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    off = not console.is_interactive
    with Progress(*columns, console=console, transient=True, disable=off) as bar:
        yield partial(bar.update, bar.add_task(what, total=None))


def _fold_columns(table: Table, width: int) -> list[int | None]:
    """Find widths of columns that fit into `width`, with gaps that are one blank wide.

    Numbers fold between words, and then texts, the widest first and of equals the last. If that is
    not enough, texts have no width, and rich breaks words.
    """
    room = width - len(table.heads) + 1
    least, widths = list[int](), list[int]()
    for index, head in enumerate(table.heads):
        texts = [head.name, *(row[index].plain for row in table.rows)]
        least.append(max((cell_len(word) for text in texts for word in text.split()), default=1))
        lines = (cell_len(line) for text in texts for line in text.splitlines())
        whole = least[-1] if head.align == "right" else max(lines, default=1)
        widths.append(max(least[-1], min(whole, room)))
    while sum(widths) > room:
        foldable = [index for index, low in enumerate(least) if widths[index] > low]
        if not foldable:
            numbers = (head.align == "right" for head in table.heads)
            return [low if number else None for low, number in zip(least, numbers, strict=True)]
        widths[max(reversed(foldable), key=widths.__getitem__)] -= 1
    return [*widths]


def _make_rich_table(table: Table, *, width: int | None = None) -> RichTable:
    """Make a rich table, which fits into `width` if one is given."""
    widths = [None] * len(table.heads) if width is None else _fold_columns(table, width)
    shown = RichTable(
        box=LINES,
        padding=(0, 1 if width is None else 0, 0, 0),
        pad_edge=False,
        show_edge=False,
        show_header=any(head.name for head in table.heads),
    )
    for head, folded in zip(table.heads, widths, strict=True):
        shown.add_column(Text(head.name), justify=head.align, overflow="fold", width=folded)
    for group in table.groups:
        shown.add_section()
        for row in group:
            shown.add_row(
                *(
                    Text.assemble(
                        (cell.text, STYLES[cell.emphasis]),
                        f" {cell.suffix}" if cell.text and cell.suffix else cell.suffix,
                    )
                    for cell in row
                )
            )
    return shown
