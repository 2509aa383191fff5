"""The papers' own numbers, and how ours are set beside them."""
