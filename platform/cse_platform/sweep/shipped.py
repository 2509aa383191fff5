"""The sweep files that come with the package: those of the methods, and of the papers' tables."""

from pathlib import Path

_PACKAGED, _CHECKOUT = (Path(__file__).parents[up] / "sweeps" for up in (1, 3))

SHIPPED = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
"""Their folder: part of an installed package, `sweeps/` of a checkout."""


def find_sweep_file(name: Path) -> Path:
    """Return the shipped sweep file of that name, such as `quickstart`, if there is no file here.

    Otherwise the path is returned as it is.
    """
    shipped = SHIPPED / f"{name}.yaml"
    return shipped if not name.exists() and shipped.is_file() else name
