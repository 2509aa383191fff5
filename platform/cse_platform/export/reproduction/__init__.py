"""The folder that runs one trial again: sweep file, requirements, script, and what is unknown."""
