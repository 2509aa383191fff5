"""Find what the nodes of a cluster need: our code, outside methods' packages, and versions.

Ray uploads the folders itself. On a node they precede all installed packages on Python's path; the
metadata beside them tell Python their versions and entry points.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cse_methods
import cse_platform
from cse_methods.code_hash import outside_sources
from cse_methods.entry_points import outside_methods
from cse_methods.registry import own_methods
from cse_platform.runner import OUTSIDE
from cse_platform.runner.pinned_packages import TAGGER_PACKAGES, TRIAL_PACKAGES, find_pinned
from cse_platform.sweep.spec import SweepSpec

OUR_PACKAGE = "cse-platform"
_START = "import sys\nfrom pathlib import Path\n\nsys.path.insert(0, str(Path(__file__).parent))\n"
"""Makes what lies in the package `OUTSIDE` importable by its own names."""
_SETUP_SECONDS = 1800
"""Timeout for copying a Python with torch on a slow disk; Ray's default is a third of that."""
_PIP_OPTIONS = ["--disable-pip-version-check", "--retries=2", "--timeout=15"]


@dataclass(frozen=True)
class Shipment:
    """The code and packages that the nodes of a cluster get from this machine."""

    ours: tuple[Path, ...] = ()
    """The folders of our own packages; none if nothing travels."""
    outside: tuple[Path, ...] = ()
    """The packages, modules and files of outside methods."""
    distributions: tuple[str, ...] = ()
    """Names of the distributions of outside methods, whose metadata travel with them."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """The packages that this code needs besides Python, torch and Ray, with their versions here."""

    def environment(self, folder: Path, *, installs: bool = False) -> dict[str, Any]:
        """Make the Ray runtime environment in which workers import this code.

        What Ray uploads is copied into `folder`. If `installs` is true, Ray also installs the
        packages, into a copy of each node's Python.
        """
        if not self.ours:
            return {}
        environment: dict[str, Any] = {"py_modules": [*map(str, self.ours)]}
        with suppress(PackageNotFoundError):  # it may be on Python's path without being installed
            environment["py_modules"] += [str(_write_metadata(distribution(OUR_PACKAGE), folder))]
        if self.outside:
            package = folder / OUTSIDE
            package.mkdir(parents=True, exist_ok=True)
            for source in self.outside:  # beside each other, because code is hashed with that
                if source.is_dir():
                    unwanted = ignore_patterns("__pycache__", ".*")
                    copytree(source, package / source.name, ignore=unwanted, dirs_exist_ok=True)
                else:
                    copy(source, package)
            for name in self.distributions:
                _write_metadata(distribution(name), package)
            (package / "__init__.py").write_text(_START)
            environment["py_modules"].append(str(package))
        if installs:
            pins = [f"{name}=={version}" for name, version in self.packages.items()]
            environment["pip"] = {"packages": pins, "pip_install_options": _PIP_OPTIONS}
            # Not eagerly: every node would copy its Python, also those that run no task, as a head.
            config = {"setup_timeout_seconds": _SETUP_SECONDS, "eager_install": False}
            environment["config"] = config
        return environment


def shipment_of(specs: Iterable[SweepSpec]) -> Shipment:
    """Find what the trials of these sweeps need from this machine."""
    ours = [Path(package.__file__ or "").parent for package in (cse_methods, cse_platform)]
    outside: list[Path] = []
    packages, distributions = list(TRIAL_PACKAGES), list[str]()
    for spec in specs:
        method = spec.find_method()
        for inside, file in outside_sources(method).items():
            outside.append(file.parents[len(inside.parts) - 1] / inside.parts[0])
        for name in (method.name, *method.config.bases):
            entry = next(iter(outside_methods().get(name, [])), None)
            if name in own_methods() or entry is None or (dist := entry.dist) is None:
                continue
            distributions.append(dist.metadata["Name"])
            required = map(Requirement, dist.requires or ())
            packages += [
                canonicalize_name(dependency.name)
                for dependency in required
                if dependency.marker is None or dependency.marker.evaluate({"extra": ""})
            ]
        configs = (spec.config(example) for example in spec.examples)
        if any(config.ingredients() for config in configs):
            packages += TAGGER_PACKAGES
    unique = tuple(dict.fromkeys(outside)), tuple(dict.fromkeys(distributions))
    return Shipment(tuple(ours), *unique, find_pinned(packages))


def _write_metadata(dist: Distribution, folder: Path) -> Path:
    """Write the metadata of a distribution, except where it is installed on this machine."""
    dist_info = folder / f"{re.sub('[-_.]+', '_', dist.metadata['Name'])}-{dist.version}.dist-info"
    dist_info.mkdir(parents=True, exist_ok=True)
    texts = {
        "METADATA": dist.read_text("METADATA") or dist.read_text("PKG-INFO"),
        "entry_points.txt": dist.read_text("entry_points.txt"),
    }
    for name, text in texts.items():
        if text is not None:
            (dist_info / name).write_text(text)
    return dist_info
