"""Sorting and selection by rank."""
