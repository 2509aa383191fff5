"""What the leaderboard's boards, comparisons, papers' tables and trials look like when written."""
