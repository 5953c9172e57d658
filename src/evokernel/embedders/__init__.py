"""Embedders map text to unit vectors; one module each."""
