"""A stopped judge waits for nobody."""

import os
import signal

from hostile_tools import judge, must_fail

must_fail("the judge was stopped", os.kill, judge(), signal.SIGSTOP)
