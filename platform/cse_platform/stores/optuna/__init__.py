"""Optuna's store, which optuna-dashboard reads."""
