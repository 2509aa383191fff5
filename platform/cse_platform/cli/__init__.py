"""The commands, one a file: each parses its arguments, calls a function, and prints the result."""
