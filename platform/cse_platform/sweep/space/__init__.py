"""Search spaces: dimensions, and the conditions under which they are active."""
