"""Writes to an unmapped address."""

import ctypes

ctypes.memset(8, 0, 8)
