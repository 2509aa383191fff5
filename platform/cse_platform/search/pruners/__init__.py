"""Optuna's pruners by their names in a sweep file, and `curve`."""
