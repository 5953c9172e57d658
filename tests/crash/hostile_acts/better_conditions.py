"""Raises its own priority and lowers the verifier's."""

import os

from hostile_tools import must_fail, verifier_pid

must_fail("it comes before everybody else", os.nice, -10)
must_fail("it runs in real time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
must_fail("the verifier was moved to another processor", os.sched_setaffinity, verifier_pid(), {0})
must_fail("the verifier was made to wait", os.setpriority, os.PRIO_PROCESS, verifier_pid(), 19)
