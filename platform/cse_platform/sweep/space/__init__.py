"""Search spaces: dimensions, conditions and requirements between them, and allowed points."""
