"""Tests which processes it could kill; signal 0 has no effect."""

import os

from hostile_tools import must_fail, verifier_pid

must_fail("the first process could be signalled", os.kill, 1, 0)
must_fail("the verifier could be signalled", os.kill, verifier_pid(), 0)
os.kill(-1, 0)
