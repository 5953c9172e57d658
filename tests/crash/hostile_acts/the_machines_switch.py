"""Tests whether it could rename or restart the machine, with arguments that have no effect."""

import errno

from hostile_tools import harm, native

for name, nonsense in (("sethostname", (0, -1)), ("reboot", (0x12345678,))):
    try:
        native(name, *nonsense)
    except OSError as error:
        if error.errno == errno.EINVAL:
            harm(f"{name} would have been possible")
