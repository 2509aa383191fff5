"""The commands, one a file: parse the arguments, call one function, print what it returns."""
