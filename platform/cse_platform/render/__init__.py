"""Writes results: tables and pages for people, JSON, CSV and pandas for programs."""
