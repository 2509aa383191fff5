"""Keeps test sets shut in a process that trains.

An audit hook (PEP 578) refuses to open, link, copy or hand to another program any file that holds
test scores or labels, and the code of `cse_methods.evaluation`, which alone knows how to read them.
It cannot be removed again. `datasets` loads nothing of the hub, because it opens all splits of a
set; readers of Arrow, which the hook does not see, refuse the same files. All of it protects
against mistakes and short cuts, not against intent. It does not see: files under names that are
neither SentEval's nor mteb's nor told to it; what a child process opens on its own; what other
native code opens without Python's `open`; what comes over the network without a file; what was
opened or imported before; sentences that a corpus or a pre-trained encoder contains already.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from pathlib import Path
from typing import Any

from cse_methods.errors import GuardError
from cse_methods.files.named import COMPRESSED

_PACKED = rf"({'|'.join(map(re.escape, COMPRESSED))})?"
_TESTS = re.compile(
    r"(^|[/\\])("
    r"STS1[2-6]-en-test"
    r"|sts-test(\.\w+)+|SICK_test_annotated\.txt"
    r"|sentiment-test|TREC_10\.label|msr_paraphrase_test\.txt"
    r"|senteval\.tar"
    r"|datasets--mteb(-private)?--(?!stsbenchmark-sts[/\\])[^/\\]+"
    r"|datasets--[^/\\]+[/\\](.*[^a-z])?tests?([^a-z].*)?"
    r"|test-tasks"
    rf"){_PACKED}([/\\]|$)",
    re.IGNORECASE,
)
_FOLDED = re.compile(
    r"(^|[/\\])(rt-polarity\.(pos|neg)|custrev\.(pos|neg)|subj\.(sub|ob)jective|mpqa\.(pos|neg))"
    rf"{_PACKED}$",
    re.IGNORECASE,
)
"""Sets without a test split: all of it is tested on, fold by fold."""
_PREPARED = re.compile(r"___[\w.-]+?[/\\_][^/\\]+?[/\\_]\d+\.\d+\.\d+[/\\_]")
"""`OWNER___NAME/CONFIG/VERSION/`, where `datasets` prepares all splits of a set, and its lock."""
_READERS = re.compile(r"(^|[/\\])cse_methods[/\\]evaluation[/\\]")
_FILES = {"open": 1, "os.link": 2, "os.symlink": 2, "os.rename": 2, "shutil.copyfile": 2}
"""Audited events, and how many of their first arguments are paths."""
_PROGRAMS = {"subprocess.Popen": 1, "os.exec": 1, "os.posix_spawn": 1, "os.system": 0}
"""Audited events, and which of their arguments is a command line."""
_MOST_LINKS = 40
"""Links that lead to one another; the system follows no more."""
_WORDS = re.compile(r"[\s'\"`;|&<>()=]+")


def guard(*, transfer_dev: bool = False, own: Iterable[str] = ()) -> None:
    """Refuse test sets in this process from here on, for good; a second call adds nothing.

    `own` has the paths of a lab's own test files.

    With `transfer_dev` the process may read the transfer sets that have no test split of their own,
    because it climbs their dev accuracies.

    Raises:
        GuardError: later, out of whatever call tries it.
    """
    _install_hook(transfer_dev, frozenset(map(os.path.realpath, own)))


@cache
def _install_hook(transfer_dev: bool, own: frozenset[str]) -> None:
    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILES:
            for argument in arguments[: _FILES[event]]:
                _refuse_path(argument, transfer_dev, own)
        elif event in _PROGRAMS:
            command = arguments[_PROGRAMS[event]]
            # The words of a command line, those inside a shell's script too.
            for part in command if isinstance(command, (list, tuple)) else [command]:
                for word in filter(None, _WORDS.split(os.fsdecode(part))):
                    _refuse_path(word, transfer_dev, own)

    def refuse_first(read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)
        def checked(source: Any, *arguments: Any, **named: Any) -> Any:
            _refuse_path(source, transfer_dev, own)
            return read(source, *arguments, **named)

        return checked

    sys.addaudithook(refuse)
    import pyarrow.parquet  # every trial imports it to find its folder

    readers = ((pyarrow, "memory_map"), (pyarrow, "input_stream"), (pyarrow.parquet, "read_table"))
    for module, name in readers:
        setattr(module, name, refuse_first(getattr(module, name)))


def is_test_file(path: str, *, transfer_dev: bool = False) -> bool:
    """Whether a path is, by its name, one of a test set."""
    return bool(_TESTS.search(path) or (not transfer_dev and _FOLDED.search(path)))


def _refuse_path(argument: Any, transfer_dev: bool, own: frozenset[str]) -> None:
    if not isinstance(argument, (str, bytes, os.PathLike)):
        return  # a file descriptor that was opened before
    path = os.fsdecode(argument)
    # A link may have another name than what it leads to, on the hub's cache the other way round.
    step, names = Path(path), [path, os.path.realpath(path)]
    while step.is_symlink() and len(names) < _MOST_LINKS:
        step = step.parent / step.readlink()
        names.append(str(step))
    for name in names:
        if _PREPARED.search(name):
            raise GuardError(
                f"a trial may not open {path}: `datasets` prepares all splits of a set of the hub, "
                "test splits among them; name the texts to train on as `corpus:`"
            )
        if _READERS.search(name):
            raise GuardError(f"a trial may not load {path}, code that opens test sets")
        if name in own or is_test_file(name, transfer_dev=transfer_dev):
            raise GuardError(
                f"a trial may not open the test set {path}; test sets are opened after the search, "
                "by `evaluate:` in the sweep file or by cse-evaluate"
            )
