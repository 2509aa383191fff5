"""Searches with Optuna, which is imported nowhere else: the study of a sweep, and all it needs."""
