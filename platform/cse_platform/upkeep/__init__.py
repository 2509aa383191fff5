"""Keeps stores and folders for years: rebuilds, deletes, cleans up."""
