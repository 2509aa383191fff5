"""Pictures of the leaderboard: figures, a page in the browser, reports. Writes to no store."""
