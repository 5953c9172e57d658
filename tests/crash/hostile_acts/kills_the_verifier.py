"""Kills the verifier."""

import os
import signal

from hostile_tools import must_fail, verifier_pid

must_fail("the verifier was killed", os.kill, verifier_pid(), signal.SIGKILL)
