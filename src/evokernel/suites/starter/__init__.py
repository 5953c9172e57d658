"""Sixteen operators over all families, at sizes a single core answers in milliseconds."""
