"""Sends a signal through a process descriptor, and takes a descriptor from another process."""

import os
import signal

from hostile_tools import must_fail, native, verifier_pid

handle = os.pidfd_open(verifier_pid())
must_fail("the verifier was killed", signal.pidfd_send_signal, handle, signal.SIGKILL)
must_fail("a descriptor of the verifier's was taken", native, "syscall", 438, handle, 0, 0)
