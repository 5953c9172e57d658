"""Runs traced programs in parts, at sizes that are too large for a complete run in interpret mode."""

from evokernel.backends.pallas.parts.program_parts import PallasParts

__all__ = ["PallasParts"]
