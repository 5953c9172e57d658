"""Floats as int8 and back, and products of int8 matrices."""
