"""Losses, one per file: pure functions of tensors."""
