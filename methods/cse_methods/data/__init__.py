"""What is trained on and what steers training: corpora, dev sets, and where they are read from."""
