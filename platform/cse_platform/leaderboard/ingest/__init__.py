"""What writes to the store: journals, evaluations, the lease of a driver; merging is below."""
