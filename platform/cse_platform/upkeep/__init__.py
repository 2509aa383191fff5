"""Removes what has grown: deletes sweeps, archives them, and cleans up what is old."""
