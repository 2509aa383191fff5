"""Statistics of numbers alone: intervals, ranks, comparisons and tests."""
