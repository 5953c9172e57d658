"""Reads and steers the judge as a debugger does."""

import ctypes

from hostile_tools import judge, must_fail, native

here = ctypes.create_string_buffer(64)


class Piece(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]


ours = Piece(ctypes.addressof(here), 8)
theirs = Piece(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value, 8)
must_fail("the judge's memory was read", native, "process_vm_readv", judge(), ctypes.addressof(ours), 1, ctypes.addressof(theirs), 1, 0)
must_fail("the judge was traced", native, "ptrace", 0x4206, judge(), 0, 0)
