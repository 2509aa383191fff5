"""Scores an encoder by hand, as cse-evaluate does, and records it where it is a trial's model."""
