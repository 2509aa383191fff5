"""Linear classifiers on frozen embeddings, as SentEval trains them."""
