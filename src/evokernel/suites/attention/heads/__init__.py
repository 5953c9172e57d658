"""Attention over several heads: with projections, with shared and with compressed keys and values."""
