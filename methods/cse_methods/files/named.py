"""File names in a sweep file: which names are files, and where these lie."""

import os
import re
from pathlib import Path

from cse_methods.errors import DataError, nearest_names

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
TEXTS, TABLES = (".txt",), (".csv", ".tsv", ".jsonl", ".parquet")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NAMED_ALONE = (".json",)
"""Read where a file itself is named; in a folder of data they mostly hold something else."""


def expand(written: str) -> str:
    """Replace `~` at the beginning of a path by the home folder, and `${NAME}` by that variable.

    DataError if the environment lacks the variable, nobody has the name after `~`, or the system
    refuses to look for the path.
    """

    def read(variable: re.Match[str]) -> str:
        if (value := os.environ.get(variable[1])) is None:
            raise DataError(f"{variable[0]}: the environment has no variable of that name")
        return value

    text = _VARIABLE.sub(read, written)
    try:
        text = str(Path(text).expanduser()) if text.startswith("~") else text
        if "://" not in text:
            Path(text).exists()
    except RuntimeError:
        raise DataError(f"{text}: no user of that name has a home folder here") from None
    except OSError as error:  # a name of 300 letters, a folder that is closed
        raise DataError(f"{text[:255]}: {error.strerror}; name a file that can be read") from None
    return text


def is_file_name(name: str) -> bool:
    """Whether a name stands for a file or folder: it has a `/`, or the ending of a text or table.

    A text or table may be compressed: `nli.csv.gz`. An address, as of a file of the hub, is none.
    """
    return "://" not in name and ("/" in name or kind_of_file(name) != "")


def nearest_file_hint(missing: Path) -> str:
    """Ask after the file of the same folder with the nearest name, as the end of a sentence; empty
    if there is none.

    It is a text, a table, or a file with the same ending; one with the same ending comes first.
    """
    try:
        files = [
            file
            for file in missing.parent.iterdir()
            if file.suffix == missing.suffix or kind_of_file(file.name)
        ]
    except OSError:
        return ""
    files.sort(key=lambda file: file.suffix == missing.suffix)
    by_name = {bare_name(file.name): file for file in files}
    near = nearest_names(bare_name(missing.name), by_name)
    return f"; did you mean {os.path.normpath(by_name[near[0]])}?" if near else ""


def kind_of_file(name: str) -> str:
    """Return the ending that says how a file is read, `.csv` of `NLI.csv.gz`; empty without one."""
    path = Path(name.lower())
    ending = Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
    return ending if ending in (*TEXTS, *TABLES, *_NAMED_ALONE) else ""


def files_below(folder: Path) -> list[Path]:
    """List the texts and tables in a folder and below it, sorted by name, without hidden ones.

    DataError for a link that would leave files out: to a folder, or to a text that is not there.
    """
    visible = [
        file
        for file in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    files = [file for file in visible if kind_of_file(file.name) in (*TEXTS, *TABLES)]
    for link in visible:
        if link.is_symlink() and (link.is_dir() or (link in files and not link.exists())):
            raise DataError(f"{link} is a link to a folder, or to no file; put the files there")
    return [file for file in files if file.is_file()]


def bare_name(file: str) -> str:
    """Return a file's name without its folder and its endings, e.g. `NLI` of `lab/NLI.csv.gz`.

    All such endings are removed, as from `x.csv.tsv`, so that the name is not taken for a file.
    """
    name = Path(file).name
    if Path(name.lower()).suffix in COMPRESSED:
        name = Path(name).stem
    name = Path(name).stem
    while kind_of_file(name):
        name = Path(name).stem
    return name


def absolute_name(name: str, folder: Path) -> str:
    """Return the absolute path that a sweep file in `folder` names; other names stay unchanged.

    A relative name is one below that folder. Where only the working directory has it, it is that
    one, as sweep files of earlier versions mean it.
    """
    if not is_file_name(name):
        return name
    path = Path(expand(name))
    below, here = (base.absolute() / path for base in (folder, Path()))
    return str(here if here.exists() and not below.exists() else below)
