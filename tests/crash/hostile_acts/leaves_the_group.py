"""Moves to a new session, which the verifier's signal to the group does not reach."""

import os

from hostile_tools import spin

os.setsid()
spin()
