"""Runs sweeps on Ray, which only this package imports: trainables, searcher, scheduler, cluster."""
