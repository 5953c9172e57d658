"""Replaces the verifier's folder by a link to a home, so that the verifier would delete foreign files."""

import os

from hostile_tools import place

home = os.path.dirname(os.getcwd())
if os.path.basename(home).startswith("evokernel-verify-"):
    os.rename(home, home + "-moved")
    os.symlink(place("home"), home)
