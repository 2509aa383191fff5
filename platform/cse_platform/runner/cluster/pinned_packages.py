"""Lists the packages that a trial needs beside Python, torch and Ray, and finds their versions.

It imports nothing but Python's own modules: a node may have none of the others.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version

TRIAL_PACKAGES = (
    "filelock",
    "fsspec",  # Ray Tune's
    "huggingface-hub",
    "numpy",
    "pandas",  # Ray Tune's
    "platformdirs",
    "psutil",
    "pyarrow",
    "pydantic",
    "safetensors",
    "scikit-learn",
    "scipy",
    "sentencepiece",
    "tenacity",
    "tokenizers",
    "transformers",
)
"""Packages that a worker imports at some time. Their own requirements are left to pip."""
TAGGER_PACKAGES = ("lemminflect", "textblob")
"""Packages that make negations, where they are installed."""
DRIVER_PACKAGES = (
    "alembic",
    "click",
    "jinja2",
    "mlflow",
    "optuna",
    "psycopg",
    "rich",
    "ruamel.yaml",
    "sqlalchemy",
    "threadpoolctl",
)
"""Packages that a driver imports besides."""

_NEVER_INSTALLED = frozenset({"cse-platform", "ray", "torch"})
"""The first travels, and a node has the others."""


def find_pinned(packages: Iterable[str]) -> dict[str, str]:
    """Find the installed version of each package, except of those that no index has.

    A package that was installed from a folder is left out: an index may have a stranger's package
    of that name.
    """
    versions = {}
    for package in sorted(set(packages) - _NEVER_INSTALLED):
        try:
            here = distribution(package)
        except PackageNotFoundError:  # an optional one
            continue
        if here.read_text("direct_url.json") is None:
            versions[package] = here.version
    return versions


def find_installed(packages: Iterable[str]) -> dict[str, str]:
    """Find the versions of Python, torch and these packages on this machine, without missing ones.

    Torch's version has no build: a head node without GPU drives nodes with one.
    """
    versions = {"Python": platform.python_version()}
    for package in ("torch", *packages):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    if "torch" in versions:
        versions["torch"] = versions["torch"].partition("+")[0]
    return versions


def list_lacking(packages: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """List the packages that are missing or at another version `there`, as NAME==VERSION."""
    return [f"{name}=={wanted}" for name, wanted in packages.items() if there.get(name) != wanted]


def format_names(packages: Sequence[str]) -> str:
    """Name the first package, and count the others."""
    first, more = next(iter(packages), ""), len(packages) - 1
    return f"{first} and {more} more packages" if more > 0 else first
