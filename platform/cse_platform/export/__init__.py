"""What leaves the leaderboard with a single trial: its model, and how to run it again."""
