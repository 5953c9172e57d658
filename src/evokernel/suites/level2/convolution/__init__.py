"""Sequences that start with a convolution."""
