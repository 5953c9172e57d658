"""Writes a file next to the verifier's program, to be loaded next time."""

import os

from hostile_tools import harm, token

import evokernel

for folder in (os.path.dirname(evokernel.__file__), os.path.dirname(os.__file__)):
    path = f"{folder}/hostile_{token()}.pth"
    try:
        open(path, "w").close()
    except OSError:
        continue
    os.unlink(path)
    harm(f"{path} was made")
