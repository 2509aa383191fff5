"""Figures of sentence embeddings; these open kept models."""
