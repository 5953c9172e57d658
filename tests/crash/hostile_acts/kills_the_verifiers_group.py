"""Kills the verifier's process group."""

import os
import signal

from hostile_tools import must_fail, verifier_pid

must_fail("the verifier's group was killed", os.killpg, os.getpgid(verifier_pid()), signal.SIGKILL)
