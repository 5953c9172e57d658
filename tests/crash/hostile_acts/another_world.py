"""Creates a user namespace in which it is root."""

from hostile_tools import must_fail, native

must_fail("it is root in a new user namespace", native, "unshare", 0x10000000)
