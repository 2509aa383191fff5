"""The package that `cse-sweep new-method` writes: a method of one's own that works at once."""
