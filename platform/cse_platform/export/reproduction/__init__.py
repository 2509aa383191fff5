"""Writes a folder that runs one trial again: sweep file, requirements, script, and unknowns."""
