"""Reading the test sets."""
