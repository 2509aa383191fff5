"""Figures of a search: what its hyperparameters do to the score."""
