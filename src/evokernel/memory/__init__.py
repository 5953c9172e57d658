"""The memory bank: items, their values, search, packs, consolidation and revocation."""
