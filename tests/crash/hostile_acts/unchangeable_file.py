"""Creates a file that its owner cannot remove."""

import array
import fcntl

from hostile_tools import must_fail

with open("stays", "w") as file:
    must_fail("a file was made unchangeable", fcntl.ioctl, file.fileno(), 0x40086602, array.array("l", [0x10]))
