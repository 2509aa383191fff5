"""Forecasts how long a sweep takes, before it runs and while it does."""
