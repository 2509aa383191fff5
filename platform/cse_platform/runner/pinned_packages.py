"""The packages that a trial needs besides Python, torch and Ray, and their installed versions.

This module imports only the standard library, because a node may have nothing else.
"""

import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version

TRIAL_PACKAGES = (
    "filelock", "huggingface-hub", "numpy", "platformdirs", "psutil", "pyarrow", "pydantic",
    "safetensors", "scikit-learn", "scipy", "sentencepiece", "tenacity", "tokenizers",
    "transformers",
    "fsspec", "pandas",  # Ray Tune's
)  # fmt: skip
"""Packages that a worker can import. Their own requirements are left to pip."""
TAGGER_PACKAGES = ("lemminflect", "textblob")
"""Optional packages for making negations."""
DRIVER_PACKAGES = (
    "click", "cmaes", "jinja2", "mlflow", "optuna", "psycopg", "rich", "ruamel.yaml", "sqlalchemy",
    "threadpoolctl",
)  # fmt: skip
"""Packages that a driver imports in addition."""

_NEVER_INSTALLED = frozenset({"cse-platform", "ray", "torch"})
"""cse-platform is shipped as code, and nodes have the others already."""


def find_pinned(packages: Iterable[str]) -> dict[str, str]:
    """Find the installed version of each package; packages that are not installed are left out.

    So are packages installed from a folder: an index may have a stranger's package of that name.
    """
    versions = {}
    for package in sorted(set(packages) - _NEVER_INSTALLED):
        try:
            installed = distribution(package)
        except PackageNotFoundError:  # an optional package
            continue
        if installed.read_text("direct_url.json") is None:
            versions[package] = installed.version
    return versions


def find_installed(packages: Iterable[str]) -> dict[str, str]:
    """Find the versions of Python, torch and these packages here; missing ones are left out.

    Torch's local version (`+cu…`) is cut off, because a head node without a GPU can drive nodes
    that have one.
    """
    versions = {"Python": platform.python_version()}
    for package in ("torch", *packages):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    if "torch" in versions:
        versions["torch"] = versions["torch"].partition("+")[0]
    return versions


def list_lacking(packages: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """List the packages that are missing or `installed` at another version, as NAME==VERSION."""
    return [
        f"{name}=={needed}" for name, needed in packages.items() if installed.get(name) != needed
    ]
