"""The nodes of a Ray cluster: checking them, sending them code."""
