"""Creates links to foreign files for processes that follow them."""

import os

from hostile_tools import place

for number, target in enumerate((place("home"), place("home/.keys/secret"), place("bank.db"), "/", "/dev/zero")):
    os.symlink(target, f"link-{number}")
