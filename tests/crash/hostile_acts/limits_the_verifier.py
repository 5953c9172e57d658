"""Sets the verifier's limit of open files."""

import resource

from hostile_tools import must_fail, verifier_pid

must_fail("the verifier was given a limit", resource.prlimit, verifier_pid(), resource.RLIMIT_NOFILE, (3, 3))
