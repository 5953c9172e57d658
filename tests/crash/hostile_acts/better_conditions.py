"""More of the processor for itself, less for the judge."""

import os

from hostile_tools import judge, must_fail

must_fail("it comes before everybody else", os.nice, -10)
must_fail("it runs in real time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
must_fail("the judge was moved to another processor", os.sched_setaffinity, judge(), {0})
must_fail("the judge was made to wait", os.setpriority, os.PRIO_PROCESS, judge(), 19)
