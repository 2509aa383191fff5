"""Imports trials that ran elsewhere (MLflow runs, training logs) as events of our journal."""
