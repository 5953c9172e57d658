"""Reductions of one axis."""
