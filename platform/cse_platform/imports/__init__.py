"""Imports results from elsewhere, which come in one layout, as events of our journals."""
