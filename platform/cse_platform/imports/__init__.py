"""Imports trials that ran elsewhere (tables, logs, MLflow) as events of our journals."""
