"""Wants to live on when the judge dies, and to be looked into by others."""

from hostile_tools import LIBC, spin

for option, value in ((1, 0), (4, 1), (36, 1)):
    LIBC.prctl(option, value, 0, 0, 0)
spin()
