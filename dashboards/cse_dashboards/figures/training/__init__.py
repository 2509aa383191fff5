"""Figures of training: dev curves, alignment and uniformity, machine load, progress of a sweep."""
