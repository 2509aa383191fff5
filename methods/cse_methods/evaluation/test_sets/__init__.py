"""Read the test sets."""
