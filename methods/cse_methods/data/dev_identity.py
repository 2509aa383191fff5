"""The identity of a dev set: a set of sentence pairs, or the seven transfer tasks together."""

from typing import NamedTuple

from cse_methods.data.dev_selection import DEV_TASKS, DevSelection
from cse_methods.data.dev_sets import load_dev_pairs, missing_dev_sets
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.transfer_sets import load_transfer_set, missing_transfer_sets
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TRANSFER_TASKS


class DevIdentity(NamedTuple):
    """Source and checksum of a dev set."""

    task: str
    source: str
    sha256: str
    """Checksum of the data; for `transfer_dev`, of the checksums of the seven sets."""


def identify_dev_set(dev: DevSelection, name: str, data: str | None) -> DevIdentity:
    """Read a dev set and return its identity. Raises the errors of its loader."""
    if name != "transfer_dev":
        pairs = load_dev_pairs(dev, name, data)
        return DevIdentity(name, pairs.source, pairs.sha256)
    sets = [load_transfer_set(one, data) for one in TRANSFER_TASKS]
    checksums = sha256_of(f"{one.task}\t{one.sha256}" for one in sets)
    return DevIdentity(name, sets[0].source, checksums)


def missing_dev_data(dev: DevSelection, data: str | None) -> list[str]:
    """Describe what must be fetched before these dev sets can be read.

    No set of the package is loaded, but a lab's own files are, and may raise a DataError.
    """
    for name in dev.files:
        load_dev_pairs(dev, name, data)
    known = [name for name in DEV_TASKS if name in dev.tasks]
    missing = missing_dev_sets([name for name in known if name != "transfer_dev"], data)
    if "transfer_dev" in known and missing_transfer_sets(data):
        missing.append(f"dev set transfer_dev ({ARCHIVE.repository})")
    return missing
