"""Single trials: found by key, their curves, scores and all their details."""
