"""A judge that may open nothing judges nothing."""

import resource

from hostile_tools import judge, must_fail

must_fail("the judge was given a limit", resource.prlimit, judge(), resource.RLIMIT_NOFILE, (3, 3))
