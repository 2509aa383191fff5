"""Optuna's samplers by their names in a sweep file, and those that differ from Optuna's."""
