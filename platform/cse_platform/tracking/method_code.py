"""Keeps the source of another package's method beside the journal, once by its hash."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cse_methods.code_hash import outside_sources
from cse_methods.contract import Method
from cse_methods.entry_points import outside_methods
from cse_methods.registry import get_method, own_methods
from cse_platform.errors import JournalError
from cse_platform.secrets import mask_text
from cse_platform.tracking.provenance import normalise_name

METHOD_SOURCE = "method_source"
"""The name, in the provenance of a start, of the hash of the method's source."""
MAX_SOURCE_BYTES = 2**20
"""The most that is kept of one method. Files beyond it are named, and not kept."""


@dataclass(frozen=True)
class MethodCode:
    """The source of a method of another package, and of the methods that it stands on."""

    package: str
    """The name of its distribution, as indexes write it."""
    version: str
    methods: dict[str, str]
    """The module that registers each method, by its name."""
    files: dict[str, str]
    """Each file's text, by its path below the package's root; secrets are hidden."""
    masked: list[str] = field(default_factory=list)
    """The files in which secrets are hidden."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Why a file is not kept, by its path."""

    @property
    def is_whole(self) -> bool:
        """Whether the files are what the method ran."""
        return not self.masked and not self.left_out


def list_outside(method: Method) -> list[str]:
    """List a method and those that it stands on, as far as other packages hold them."""
    return [name for name in (method.name, *method.config.bases) if name not in own_methods()]


def find_distribution(method: str) -> tuple[str, str]:
    """Find the name and version of the package that a method is from."""
    for entry in outside_methods().get(method, ()):
        if entry.dist is not None:
            return normalise_name(entry.dist.name), entry.dist.version
    return normalise_name(method), "0"


def collect_method_code(method: Method) -> MethodCode | None:
    """Read the source of a method; None for one of ours, or where it cannot be read.

    These are the modules that the trial's key hashes, and the files that they name. Of ours, the
    commit and the version tell.
    """
    outside, sources = list_outside(method), outside_sources(method)
    if not outside or not sources:
        return None
    texts: dict[str, str] = {}
    left_out: dict[str, str] = {}
    room = MAX_SOURCE_BYTES
    for inside, file in sources.items():
        content = file.read_bytes()
        if len(content) > room:
            left_out[inside.as_posix()] = f"it has {len(content)} bytes"
            continue
        try:
            texts[inside.as_posix()] = content.decode()
        except UnicodeDecodeError:
            left_out[inside.as_posix()] = "it is no text"
            continue
        room -= len(content)
    files = {name: mask_text(text) for name, text in texts.items()}
    return MethodCode(
        *find_distribution(outside[0]),
        methods={name: get_method(name).train.__module__ for name in outside},
        files=files,
        masked=[name for name, text in texts.items() if files[name] != text],
        left_out=left_out,
    )


def keep_method_code(code: MethodCode, folder: Path) -> str:
    """Write a method's source into the folder of a journal, unless it is there. Returns its hash.

    OSError if it cannot be written.
    """
    content = json.dumps(asdict(code), sort_keys=True, indent=1).encode()
    sha256 = hashlib.sha256(content).hexdigest()
    file = _locate_code(folder, sha256)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".part")
        unfinished.write_bytes(content)
        unfinished.replace(file)
    return sha256


def read_method_code(folders: Iterable[Path], sha256: str) -> MethodCode | None:
    """Read a method's source by its hash from the first of these journals' folders that has it.

    JournalError if what lies there is damaged.
    """
    for file in (_locate_code(folder, sha256) for folder in folders):
        try:
            content = file.read_bytes()
        except OSError:  # it is not there, or nobody here may look
            continue
        if hashlib.sha256(content).hexdigest() != sha256:
            raise JournalError(f"{file} is damaged: its sha256 is not its name; put a copy back")
        return MethodCode(**json.loads(content))
    return None


def _locate_code(folder: Path, sha256: str) -> Path:
    return folder / "code" / f"{sha256}.json"
