"""The memory bank: items, their values, search, packs, contamination, consolidation and revocation."""
