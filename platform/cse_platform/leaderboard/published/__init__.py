"""The papers' own numbers, and the comparison of ours with them."""
