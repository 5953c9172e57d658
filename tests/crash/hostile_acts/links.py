"""Links to what is not ours, for whoever follows them when cleaning up or reading."""

import os

from hostile_tools import place

for number, target in enumerate((place("home"), place("home/.keys/secret"), place("bank.db"), "/", "/dev/zero")):
    os.symlink(target, f"link-{number}")
