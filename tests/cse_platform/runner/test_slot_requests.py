"""What the autoscaler of a cluster is asked for while trials wait."""

from types import SimpleNamespace
from typing import Any

import pytest

from cse_platform.runner.cluster import checks
from cse_platform.sweep.blocks import Slot

HISTORY = (
    ("a", 6, 2, "", 0),  # a node has joined: former requests exclude only the nodes before it
    ("a", 6, 2, "", 4),
    ("a", 4, 2, "", 2),  # some trials have begun
    ("a b", 6, 2, "", 0),
    ("a b", 6, 4, "b", 2),  # as many nodes are refused as have passed
    ("a b", 1, 4, "", 0),
    ("a b c", 9, 1, "", 0),
    ("a b c", 9, 1, "b c", 0),  # a new node would be refused, too
    ("a b c", 999, 1, "b", 100),
)
"""Nodes that are there, trials, free slots, nodes that are refused, and the requests then."""


def test_as_many_slots_are_asked_for_as_waiting_trials_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster: Any = SimpleNamespace(now=0.0, there="", free=0, counted=[], requests=[])

    def count_free(slot: Slot, *, among: set[str]) -> int:
        cluster.counted.append(among)
        return int(cluster.free)

    def ask(bundles: Any, *, bundle_label_selector: Any) -> Any:
        cluster.requests.append((bundles, bundle_label_selector))
        return cluster.requests[-1]

    def look() -> list[dict[str, Any]]:
        gone = [{"NodeID": "gone", "Alive": False}]
        return gone + [{"NodeID": one, "Alive": True} for one in cluster.there.split()]

    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: cluster.now))
    monkeypatch.setattr(checks, "ray", SimpleNamespace(nodes=look))
    monkeypatch.setattr(checks, "free_slots", count_free)
    monkeypatch.setattr(checks, "placement_group", ask)
    monkeypatch.setattr(checks, "remove_placement_group", cluster.requests.remove)
    nodes: Any = SimpleNamespace(refused={}, passed={"a"})
    requests = checks.SlotRequests(Slot(cpu=2, gpu=0), nodes)
    for cluster.there, trials, cluster.free, refused, expected in HISTORY:
        nodes.refused = dict.fromkeys(refused.split(), "why")
        requests.follow(lambda trials=trials: trials)
        assert len(cluster.requests) == expected, (cluster.there, trials, refused)
        requests.follow(lambda: 0)  # too soon to look again
        assert len(cluster.requests) == expected
        cluster.now += checks._REQUEST_SECONDS
    assert cluster.requests[0] == ([{"CPU": 2}], [{checks.NODE: "!in(a,b,c)"}])
    assert cluster.counted[-1] == {"a", "c"}
    requests.end()
    assert not cluster.requests
