"""Migrations of the leaderboard, one file per step. A released step is never changed."""
