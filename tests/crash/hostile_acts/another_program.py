"""Replaces itself by another program."""

import os

os.execv("/bin/sleep", ["sleep", "20"])
