"""The sweep files that come with the package: those of the methods, and of the papers' tables."""

from pathlib import Path

_PACKAGED, _CHECKOUT = (Path(__file__).parents[up] / "sweeps" for up in (1, 3))

SHIPPED = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
"""Their folder: part of an installed package, `sweeps/` of a checkout."""


def find_sweep_file(name: Path) -> Path:
    """Return the shipped sweep file of that name, such as `quickstart`, if there is no file here.

    Any other path, such as one that leads out of the shipped files, is returned as it is.
    """
    shipped = SHIPPED / f"{name}.yaml"
    leads_out = name.is_absolute() or ".." in name.parts
    return name if leads_out or name.is_file() or not shipped.is_file() else shipped
