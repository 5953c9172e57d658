"""Experiments: many runs with several arms and seeds, and their reports."""
