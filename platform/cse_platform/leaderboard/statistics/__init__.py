"""Intervals, ranks, comparisons and tests, of numbers alone."""
