"""Keeps the source of another package's method beside the journal, in a file named by its hash."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from packaging.utils import canonicalize_name, is_normalized_name
from packaging.version import parse
from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from cse_methods.code_hash import outside_sources
from cse_methods.contract import Method
from cse_methods.entry_points import outside_methods
from cse_methods.registry import get_method, own_methods
from cse_methods.settings import Settings
from cse_platform.errors import JournalError
from cse_platform.safe_paths import find_link, is_name_below
from cse_platform.secrets import mask_text
from cse_platform.sweep.blocks import Slug
from cse_platform.sweep.problems import first_problem

METHOD_SOURCE = "method_source"
"""Key of the source's hash in the provenance of a sweep's start."""
MAX_SOURCE_BYTES = 2**20
"""Maximum total size of the kept files of a method; files beyond it are only named."""
_MAX_BUNDLE_BYTES = 16 * MAX_SOURCE_BYTES
"""Maximum size of the file that keeps them: JSON escapes some characters by up to six bytes."""


def _check_by(is_valid: Callable[[str], object]) -> AfterValidator:
    def check(text: str) -> str:
        if not is_valid(text):
            raise ValueError(f"got {text!r}")
        return text

    return AfterValidator(check)


_Module = Annotated[str, StringConstraints(pattern=re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*\Z"))]


class MethodCode(Settings):
    """The source of a method of another package, and of the methods that it is based on.

    A bundle from elsewhere is checked by these types, because its names become those of files, and
    its texts a package that people install.
    """

    package: Annotated[str, _check_by(is_normalized_name)]
    """The normalised name of its distribution."""
    version: Annotated[str, _check_by(parse)]
    methods: dict[Slug, _Module]
    """The module that registers each method, by the method's name."""
    files: dict[Annotated[str, _check_by(is_name_below)], str]
    """The text of each file, with secrets masked, by its path below the package's root."""
    masked: list[str] = Field(default_factory=list)
    """The files with masked secrets."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Why a file was not kept, by its path."""


def collect_method_code(method: Method) -> MethodCode | None:
    """Read the source of a method; None for a method of ours, or if it cannot be read.

    The files are the modules that the trial's key hashes, and the files that these name. Our own
    code is identified by commit and version instead.
    """
    outside = [name for name in (method.name, *method.config.bases) if name not in own_methods()]
    sources = outside_sources(method)
    if not outside or not sources:
        return None
    texts: dict[str, str] = {}
    left_out: dict[str, str] = {}
    bytes_left = MAX_SOURCE_BYTES
    for inside, file in sources.items():
        content = file.read_bytes()
        if len(content) > bytes_left:
            left_out[inside.as_posix()] = f"it has {len(content)} bytes"
            continue
        try:
            texts[inside.as_posix()] = content.decode()
        except UnicodeDecodeError:
            left_out[inside.as_posix()] = "it is not text"
            continue
        bytes_left -= len(content)
    files = {name: mask_text(text) for name, text in texts.items()}
    entries = outside_methods().get(outside[0], ())
    installed = next((entry.dist for entry in entries if entry.dist is not None), None)
    return MethodCode(
        package=canonicalize_name(outside[0] if installed is None else installed.name),
        version="0" if installed is None else installed.version,
        methods={name: get_method(name).train.__module__ for name in outside},
        files=files,
        masked=[name for name, text in texts.items() if files[name] != text],
        left_out=left_out,
    )


def keep_method_code(code: MethodCode, folder: Path) -> str:
    """Write a method's source into the folder of a journal, unless it is there. Returns its hash.

    Raises OSError if it cannot be written.
    """
    content = json.dumps(code.model_dump(), sort_keys=True, indent=1).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    file = folder / "code" / f"{sha256}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_bytes(content)
        unfinished.replace(file)
    return sha256


def read_method_code(folders: Iterable[Path], sha256: str) -> MethodCode | None:
    """Read a method's source by its hash, from the first of these journal folders that has it.

    Raises JournalError if the file is damaged, a link, or no such source.
    """
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        return None
    for folder in folders:
        file = folder / "code" / f"{sha256}.json"
        try:
            if (link := find_link(file.parent, below=folder.parent.parent)) is not None:
                raise JournalError(
                    f"{link} is a link or behind one, so it is not read; put a copy in its place "
                    "if it is yours, or remove it"
                )
            if (size := file.stat().st_size) > _MAX_BUNDLE_BYTES:
                raise JournalError(
                    f"{file} has {size} bytes, and the source of a method at most "
                    f"{_MAX_BUNDLE_BYTES}; remove it"
                )
            content = file.read_bytes()
        except (OSError, ValueError):  # missing, or no permission, or a folder with a null
            continue
        if hashlib.sha256(content).hexdigest() != sha256:
            raise JournalError(
                f"{file} is damaged: its sha256 differs from its name; put a copy back"
            )
        try:
            return MethodCode.model_validate_json(content)
        except ValidationError as error:
            location = error.errors()[0]["loc"][:1]
            field = "".join(f"{key}: " for key in location)  # a later one is its own text
            raise JournalError(
                f"{file} is not the source of a method ({field}{first_problem(error)}), so nothing "
                "of it is used; if you do not know where it comes from, remove it"
            ) from error
    return None
