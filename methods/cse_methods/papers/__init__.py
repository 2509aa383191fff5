"""The methods, one per file; the name of the file is the name of the method."""
