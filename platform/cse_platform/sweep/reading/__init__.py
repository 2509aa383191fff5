"""YAML and `--set` into plain values with lines, and problems of them in plain sentences."""
