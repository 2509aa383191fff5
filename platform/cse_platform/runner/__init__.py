"""The only import of Ray: trainables, searcher, scheduler, resources, cluster."""

from cse_platform.runner.processes.worker import trainable

__all__ = ["trainable"]
