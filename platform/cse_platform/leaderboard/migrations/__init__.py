"""Migrations of the schema, step by step; run by `cse_platform.leaderboard.upgrade`."""
