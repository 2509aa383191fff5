"""Measures of embeddings on test sets: correlations, rankings, geometry."""
