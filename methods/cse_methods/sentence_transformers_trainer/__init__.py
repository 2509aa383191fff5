"""Trains any encoder on any loss with the trainer of sentence-transformers."""
