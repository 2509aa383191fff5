"""Pruners: Optuna's, built from a file's options, and one module for each that Optuna lacks."""
