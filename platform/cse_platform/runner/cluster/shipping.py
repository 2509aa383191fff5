"""Pack what the nodes of a cluster need: our code, outside methods' packages, and versions.

Each package is an archive of its own, with the metadata that tells Python its version and its entry
points. Ray unpacks it once on a node, where it precedes all installed packages on Python's path.
"""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from packaging.requirements import Requirement

import cse_methods
import cse_platform
from cse_methods.code_hash import outside_sources
from cse_methods.contract import Method
from cse_methods.entry_points import outside_methods
from cse_methods.registry import own_methods
from cse_platform.errors import SweepRefusedError
from cse_platform.runner.cluster.pinned_packages import TAGGER_PACKAGES, TRIAL_PACKAGES, find_pinned
from cse_platform.sweep.spec import SweepSpec
from cse_platform.tracking.provenance import normalise_name

OUR_PACKAGE = "cse-platform"
_MAX_BYTES = 200 << 20
"""The largest package that is shipped, in bytes; Ray's limit of a message is about twice that."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time stamp of all files, so that an archive depends only on their content."""

Content = Mapping[str, Path | str]
"""The files of an archive by name: the path of each, or its text."""


@dataclass(frozen=True)
class Shipment:
    """The code and packages that the driver sends to the nodes of a cluster."""

    archives: Mapping[str, bytes]
    """Zip files by Ray's URI, which is a hash of the content."""
    packages: Mapping[str, str]
    """The packages that this code needs besides Python, torch and Ray, with their versions here."""

    @property
    def environment(self) -> dict[str, Any]:
        """The Ray runtime environment in which workers import this code."""
        return {"py_modules": list(self.archives)}


def shipment_of(specs: Iterable[SweepSpec]) -> Shipment:
    """Pack what the trials of these sweeps need from this machine.

    Raises SweepRefusedError if the package of an outside method is too large to ship.
    """
    archives, packages = [_make_own_archive()], list(TRIAL_PACKAGES)
    for spec in specs:
        method = spec.find_method()
        if sources := outside_sources(method):
            archives.append(_archive_method(method, sources))
            packages += _iter_requirements(method)
        configs = (spec.config(example) for example in spec.examples)
        if any(config.ingredients() for config in configs):
            packages += TAGGER_PACKAGES
    return Shipment({_make_uri(data): data for data in archives}, find_pinned(packages))


def archive(content: Content) -> tuple[str, bytes]:
    """Make an archive of these files. Returns its URI and its content."""
    data = _make_archive(content)
    return _make_uri(data), data


def _make_own_archive() -> bytes:
    folders = (Path(package.__file__ or "").parent for package in (cse_methods, cse_platform))
    content: dict[str, Path | str] = {}
    for folder in folders:
        content |= _list_package_files(folder)
    with suppress(PackageNotFoundError):  # it may be on Python's path without being installed
        content |= _read_metadata(distribution(OUR_PACKAGE))
    return _make_archive(content)


def _archive_method(method: Method, sources: Mapping[Path, Path]) -> bytes:
    """Archive the packages of outside methods, and the modules beside them that they import."""
    content: dict[str, Path | str] = {}
    for inside, file in sources.items():
        top = file.parents[len(inside.parts) - 1] / inside.parts[0]
        content |= _list_package_files(top) if top.is_dir() else {top.name: top}
    size = sum(file.stat().st_size for file in content.values() if isinstance(file, Path))
    if size > _MAX_BYTES:
        raise SweepRefusedError(
            f"the package of method {method.name!r} has {size >> 20} MiB, and at most "
            f"{_MAX_BYTES >> 20} travel to the nodes of a cluster; move its data elsewhere, or "
            "install the package on every node and give --no-ship"
        )
    for dist in _iter_distributions(method):
        content |= _read_metadata(dist)
    return _make_archive(content)


def _list_package_files(folder: Path) -> dict[str, Path | str]:
    """Map a package's files by their paths, which start with the package's name."""
    return {str(file.relative_to(folder.parent)): file for file in _iter_files(folder)}


def _iter_files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name == "__pycache__" or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _iter_files(entry)
        else:
            yield entry


def _read_metadata(of: Distribution) -> dict[str, Path | str]:
    """Read the metadata of a distribution, except where it is installed on this machine."""
    folder = f"{re.sub('[-_.]+', '_', of.metadata['Name'])}-{of.version}.dist-info"
    texts = {
        "METADATA": of.read_text("METADATA") or of.read_text("PKG-INFO"),
        "entry_points.txt": of.read_text("entry_points.txt"),
    }
    return {f"{folder}/{name}": text for name, text in texts.items() if text is not None}


def _make_archive(content: Content) -> bytes:
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_DEFLATED) as zipped:
        for name, file in sorted(content.items()):
            entry = ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = ZIP_DEFLATED
            zipped.writestr(entry, file.read_bytes() if isinstance(file, Path) else file)
    return stream.getvalue()


def _make_uri(data: bytes) -> str:
    """Make the URI that Ray itself would give to an archive."""
    return f"gcs://_ray_pkg_{hashlib.sha1(data).hexdigest()}.zip"


def _iter_distributions(method: Method) -> Iterator[Distribution]:
    """Yield the distributions of the method and its base methods, where these are outside ones."""
    for name in (method.name, *method.config.bases):
        for entry in outside_methods().get(name, [])[:1]:
            if name not in own_methods() and entry.dist is not None:
                yield entry.dist


def _iter_requirements(method: Method) -> Iterator[str]:
    """Yield the names of the packages that outside methods' distributions require."""
    for dist in _iter_distributions(method):
        for text in dist.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield normalise_name(requirement.name)
