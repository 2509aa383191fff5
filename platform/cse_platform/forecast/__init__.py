"""Forecasts the duration of a sweep, before it starts and while it runs."""
