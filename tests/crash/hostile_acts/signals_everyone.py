"""Asks who could be killed. Only asks: signal 0 reaches nobody."""

import os

from hostile_tools import judge, must_fail

must_fail("the first process could be signalled", os.kill, 1, 0)
must_fail("the judge could be signalled", os.kill, judge(), 0)
os.kill(-1, 0)
