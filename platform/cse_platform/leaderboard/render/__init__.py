"""Renders boards, comparisons, papers' tables and trials as text and data."""
