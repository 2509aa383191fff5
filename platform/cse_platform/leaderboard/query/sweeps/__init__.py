"""Sweeps: how far they are, what runs, and what they have tried."""
