"""Lists the user's files."""

import os

from hostile_tools import must_fail, place

must_fail("the home was listed", os.listdir, place("home"))
must_fail("the run was listed", os.listdir, place("run"))
must_fail("the machine's password file was read", open, "/etc/shadow")
