"""The only import of Ray: trainables, searcher, scheduler, resources, cluster."""
