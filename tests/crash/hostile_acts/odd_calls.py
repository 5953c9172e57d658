"""Makes system calls that no kernel needs, each a way around the others."""

import ctypes
import os

from hostile_tools import must_fail, native

room = ctypes.create_string_buffer(256)
must_fail("it has a queue for calls", native, "syscall", 425, 4, ctypes.addressof(room))
must_fail("it has a process as a descriptor", os.pidfd_open, os.getpid())
must_fail("it changed how its program is loaded", native, "personality", 0x0400000)
