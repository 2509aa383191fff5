"""Statistics on plain numbers, without a database: intervals, ranks, comparisons and tests."""
