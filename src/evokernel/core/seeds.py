"""Seeds from texts: equal texts give equal seeds on every machine and in every process."""

from __future__ import annotations

import hashlib


def seed_from_text(text: str, bits: int = 56) -> int:
    """Derive a seed of at most 64 bits from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - bits)
