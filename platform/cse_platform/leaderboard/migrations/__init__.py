"""How the schema came to be, step by step; run by `cse_platform.leaderboard.upgrade`."""
