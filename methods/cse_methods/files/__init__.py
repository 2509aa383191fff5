"""Files on this machine: reading text and tables, hashing, and the cache."""
