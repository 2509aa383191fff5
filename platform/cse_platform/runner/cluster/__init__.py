"""Manages the nodes of a Ray cluster: their checks, their code, and fair shares of their slots."""
