"""Decides what a sweep runs next, and what it must no longer run."""
