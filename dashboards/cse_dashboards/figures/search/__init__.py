"""Figures of a search: how its hyperparameters affect the score."""
