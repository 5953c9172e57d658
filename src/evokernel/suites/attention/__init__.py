"""Seventy forms of attention, by category: scores and masks, heads, caches, positions, sparse, linear, other variants, vision."""
