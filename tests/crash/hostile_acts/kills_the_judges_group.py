"""Everything the judge started."""

import os
import signal

from hostile_tools import judge, must_fail

must_fail("the judge's group was killed", os.killpg, os.getpgid(judge()), signal.SIGKILL)
