"""Figures of training: dev curves, geometry along the way, and how far a sweep is."""
