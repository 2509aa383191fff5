"""A lab's own pairs of sentences with scores: how a file of them is named, read and rescaled."""
