"""Reads and traces the verifier as a debugger does."""

import ctypes

from hostile_tools import must_fail, native, verifier_pid

here = ctypes.create_string_buffer(64)


class Piece(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("length", ctypes.c_size_t)]


ours = Piece(ctypes.addressof(here), 8)
theirs = Piece(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value, 8)
must_fail(
    "the verifier's memory was read", native, "process_vm_readv", verifier_pid(), ctypes.addressof(ours), 1, ctypes.addressof(theirs), 1, 0
)
must_fail("the verifier was traced", native, "ptrace", 0x4206, verifier_pid(), 0, 0)
