"""Figures, one per file, each with its data, its drawing and its caption.

Scores are passed as fractions and drawn x 100, as papers print them; axis titles say so.
"""
