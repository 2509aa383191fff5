"""Reads a sweep file, checks it against its method, hashes it, and resolves its stores."""
