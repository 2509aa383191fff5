"""Brings what another leaderboard holds onto this one: sweeps, trials and their attempts."""
