"""Writes to where nothing is."""

import ctypes

ctypes.memset(8, 0, 8)
