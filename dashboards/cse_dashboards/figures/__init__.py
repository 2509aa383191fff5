"""Figures: one file each, with its data, its drawing and its caption.

Scores come in as fractions and are drawn x 100, as papers print them; axes say so.
"""
