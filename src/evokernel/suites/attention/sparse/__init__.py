"""Attention in which each query sees some of the keys only."""
