"""The other way to send a signal, and to take a descriptor out of another process."""

import os
import signal

from hostile_tools import judge, must_fail, native

handle = os.pidfd_open(judge())
must_fail("the judge was killed", signal.pidfd_send_signal, handle, signal.SIGKILL)
must_fail("a descriptor of the judge's was taken", native, "syscall", 438, handle, 0, 0)
