"""Deletes sweeps, and cleans up what has grown old."""
