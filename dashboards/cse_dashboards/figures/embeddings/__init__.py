"""Figures of what models make of sentences; these open kept models."""
