"""Pictures: each asks the leaderboard one question and shows the answer as a figure."""
