"""What a search has found, and how far that can be trusted."""
