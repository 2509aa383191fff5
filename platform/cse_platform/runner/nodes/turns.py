"""Whose turn it is where several sweeps use one cluster."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import ray
from ray.tune.utils.object_cache import _ObjectCache
from ray.util.placement_group import placement_group_table

_EVERY = 1.0
"""Seconds between two looks at who waits."""
_JOB_DIGITS = 8
"""How many hexadecimal digits the id of a placement group has for the job that asked for it."""


class Turns:
    """Whether this sweep leaves its next free slot to another Ray job that waits for one.

    It does while the other would still have no more slots than this one. So sweeps come to equal
    shares as their trials end, no trial is stopped for that, and a sweep keeps its last slot.
    """

    def __init__(self) -> None:
        self._own: str = ray.get_runtime_context().get_job_id()
        self._looked = -_EVERY
        self._yields = False

    def yields(self) -> bool:
        """Whether another job comes first; asks Ray at most once a second."""
        if time.monotonic() >= self._looked + _EVERY:
            self._looked = time.monotonic()
            groups = placement_group_table().values()
            held: Counter[str] = Counter(_job(one) for one in groups if one["state"] == "CREATED")
            waiting = {_job(one) for one in groups if _waits(one)} - {self._own}
            least = min((held[job] for job in waiting), default=held[self._own])
            self._yields = held[self._own] >= least + 2
        return self._yields


def _job(group: dict[str, Any]) -> str:
    return str(group["placement_group_id"][-_JOB_DIGITS:])


def _waits(group: dict[str, Any]) -> bool:
    """Whether it gets its place once something else is over, without a further node."""
    scheduling = group["stats"]["scheduling_state"]
    return (group["state"], scheduling) == ("PENDING", "NO_RESOURCES")


class IdleWorkers(_ObjectCache):  # type: ignore[misc]  # Ray is untyped
    """Ray's idle processes. Each is kept for the next trial unless its slot is for another job.

    By itself, Ray keeps a single one.
    """

    def __init__(self, yields: Callable[[], bool]) -> None:
        super().__init__(may_keep_one=False)
        self._yields = yields

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep an idle process; False if it is to end."""
        if self._yields():
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        return True

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Yield the processes that are to end."""
        if force_all or (self.num_cached_objects and self._yields()):
            yield from super().flush_cached_objects(force_all=True)
