"""Runs sweeps on Ray, which only this package imports: trainables, searcher, scheduler, cluster."""

from importlib import import_module
from importlib.util import find_spec

OUTSIDE = "cse_shipped"
"""The package in which outside methods travel to the nodes of a cluster."""

if find_spec(OUTSIDE) is not None:
    import_module(OUTSIDE)
