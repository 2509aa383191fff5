"""Keeps stores and folders for years: backs up, restores, archives, deletes, cleans up."""
