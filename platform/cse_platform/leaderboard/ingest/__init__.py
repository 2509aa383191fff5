"""What writes to the store: journals, evaluations, and other leaderboards that are merged."""
