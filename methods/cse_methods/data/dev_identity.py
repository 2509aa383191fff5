"""The identity of a dev set: sentence pairs, or the seven transfer tasks together."""

from typing import NamedTuple

from cse_methods.data.dev_selection import DevTask
from cse_methods.data.dev_sets import load_dev_set, missing_dev_sets
from cse_methods.data.senteval import ARCHIVE
from cse_methods.data.transfer_sets import load_transfer_set, missing_transfer_sets
from cse_methods.files.text import sha256_of
from cse_methods.tasks import TRANSFER_TASKS


class DevIdentity(NamedTuple):
    """Where a dev set comes from, and what it holds."""

    task: DevTask
    source: str
    sha256: str
    """Checksum of the data; for `transfer_dev`, of the checksums of the seven sets."""


def identify_dev_set(task: DevTask, data: str | None) -> DevIdentity:
    """Read a dev set and return its identity; raises as its loader."""
    if task != "transfer_dev":
        dev = load_dev_set(task, data)
        return DevIdentity(task, dev.source, dev.sha256)
    sets = [load_transfer_set(one, data) for one in TRANSFER_TASKS]
    checksums = sha256_of(f"{one.task}\t{one.sha256}" for one in sets)
    return DevIdentity(task, sets[0].source, checksums)


def missing_dev_data(tasks: tuple[DevTask, ...], data: str | None) -> list[str]:
    """What would have to be fetched before these can be read, for people; loads nothing."""
    missing = missing_dev_sets([task for task in tasks if task != "transfer_dev"], data)
    if "transfer_dev" in tasks and missing_transfer_sets(data):
        missing.append(f"dev set transfer_dev ({ARCHIVE.repository})")
    return missing
