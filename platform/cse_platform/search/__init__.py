"""Searches with Optuna: the study of a sweep, in memory, and all that draws and prunes for it."""
