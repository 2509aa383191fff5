"""The nodes of a Ray cluster: what they have, which get trials, and whose turn it is."""
