"""Writers of the store: journals, evaluations, the driver's lease, removal."""
