"""Training corpora and dev sets, and where they are read from."""
