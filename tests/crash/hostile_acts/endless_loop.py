"""Loops."""

from hostile_tools import spin

spin()
