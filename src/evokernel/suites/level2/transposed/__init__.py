"""Sequences that start with a transposed convolution."""
