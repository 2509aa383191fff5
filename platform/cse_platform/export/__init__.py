"""What leaves the leaderboard with one trial: its model, its registry entry, its reproduction."""
