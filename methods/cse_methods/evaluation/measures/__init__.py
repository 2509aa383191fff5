"""What is computed from embeddings and test sets: correlations, rankings, geometry, accuracies."""
