"""Figures: pure functions from what the leaderboard says to a Plotly figure.

A file each. Scores come in as fractions and are drawn x 100, as papers print them; axes say so.
"""
