"""Exports one trial: its model, its registry entry, its reproduction."""
