"""The identity of a dev set: sentence pairs, or the seven transfer tasks together."""

from typing import NamedTuple

from cse_methods.data.dev_selection import DEV_TASKS, DevSelection
from cse_methods.data.dev_sets import load_dev_pairs, missing_dev_sets
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.transfer_sets import load_transfer_set, missing_transfer_sets
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TRANSFER_TASKS


class DevIdentity(NamedTuple):
    """Where a dev set comes from, and what it holds."""

    task: str
    source: str
    sha256: str
    """Checksum of the data; for `transfer_dev`, of the checksums of the seven sets."""


def identify_dev_set(dev: DevSelection, name: str, data: str | None) -> DevIdentity:
    """Read one of these dev sets and return its identity; raises as its loader."""
    if name != "transfer_dev":
        pairs = load_dev_pairs(dev, name, data)
        return DevIdentity(name, pairs.source, pairs.sha256)
    sets = [load_transfer_set(one, data) for one in TRANSFER_TASKS]
    checksums = sha256_of(f"{one.task}\t{one.sha256}" for one in sets)
    return DevIdentity(name, sets[0].source, checksums)


def missing_dev_data(dev: DevSelection, data: str | None) -> list[str]:
    """Describe what must be fetched before these dev sets can be read.

    It loads none of the package's sets, but reads a lab's own files, which may be faulty.
    """
    for name in dev.files:
        load_dev_pairs(dev, name, data)
    known = [name for name in DEV_TASKS if name in dev.tasks]
    missing = missing_dev_sets([name for name in known if name != "transfer_dev"], data)
    if "transfer_dev" in known and missing_transfer_sets(data):
        missing.append(f"dev set transfer_dev ({ARCHIVE.repository})")
    return missing
