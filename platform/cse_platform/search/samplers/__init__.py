"""Samplers: Optuna's own, built from a file's options, and a file for each that differs."""
