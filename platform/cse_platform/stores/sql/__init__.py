"""The SQL leaderboard: its tables, and all that writes to it."""
