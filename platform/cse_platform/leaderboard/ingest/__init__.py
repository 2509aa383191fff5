"""Writers of the store: journals, evaluations, the lease of a driver, merging."""
