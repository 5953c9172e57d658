"""Sequences that start with a matrix product."""
