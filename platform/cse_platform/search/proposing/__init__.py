"""What a search tries next: its start points, and what the sampler draws."""
