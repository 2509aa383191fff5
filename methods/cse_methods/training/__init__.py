"""The training loop shared by all methods, and what it provides to a method."""
