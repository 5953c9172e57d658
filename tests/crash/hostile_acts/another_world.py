"""A world of its own to be root in."""

from hostile_tools import must_fail, native

must_fail("it is root in a world of its own", native, "unshare", 0x10000000)
