"""Scoring a trained encoder; no other folder opens a test set."""
