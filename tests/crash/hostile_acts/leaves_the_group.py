"""Moves into a session of its own, where the judge's signal to the group does not reach."""

import os

from hostile_tools import spin

os.setsid()
spin()
