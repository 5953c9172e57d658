"""Activations: one function of one element."""
