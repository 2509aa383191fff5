"""The one training loop, and what it hands to a method."""
