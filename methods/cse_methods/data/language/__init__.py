"""Rules of English: cutting, splitting, tagging and negating sentences."""
