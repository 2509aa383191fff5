"""Figures of scores: rows of the leaderboard, and one row against another."""
