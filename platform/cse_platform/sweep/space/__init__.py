"""Search spaces: dimensions, conditions between them, and the points that a search starts from."""
