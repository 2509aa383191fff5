"""Score a trained encoder; no other package opens a test set."""
