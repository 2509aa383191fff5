"""Figures of the leaderboard, as a page in the browser, reports and files."""
