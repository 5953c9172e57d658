"""Names of operators that only move data."""

from __future__ import annotations

OP_NAMES = """
    _to_copy _unsafe_view arange bernoulli_ cat clone constant_pad_nd copy copy_ embedding empty empty_like empty_strided eye fill fill_
    flip full full_like gather index index_put index_put_ index_select linspace new_empty new_full new_ones new_zeros normal_ ones ones_like
    pixel_shuffle pixel_unshuffle rand rand_like randn randn_like repeat roll scalar_tensor scatter select_scatter slice_scatter stack
    tril triu uniform_ zeros zeros_like zero_
"""
DATA_MOVEMENT_OPS = frozenset(OP_NAMES.split())
"""Operators that copy, create or rearrange values without arithmetic. Views are not listed: torch marks them."""
