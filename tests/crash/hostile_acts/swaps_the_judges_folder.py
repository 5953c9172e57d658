"""Puts a link to someone's home where the judge's folder was: what the judge removes then is not its own."""

import os

from hostile_tools import place

home = os.path.dirname(os.getcwd())
if os.path.basename(home).startswith("evokernel-judge-"):
    os.rename(home, home + "-moved")
    os.symlink(place("home"), home)
