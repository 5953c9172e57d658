"""No judge, no verdict."""

import os
import signal

from hostile_tools import judge, must_fail

must_fail("the judge was killed", os.kill, judge(), signal.SIGKILL)
