"""Creates System V shared memory, which outlives its process."""

import ctypes

from hostile_tools import LIBC, must_fail, native, token


def keep():
    segment = native("shmget", int(token(), 16) & 0x7FFFFFFF, 1 << 20, 0o1600)
    LIBC.shmctl(ctypes.c_int(segment), 0, None)


must_fail("shared memory was left behind", keep)
