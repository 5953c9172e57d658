"""Writes files to shared temporary folders."""

import os

from hostile_tools import harm, token

made = []
for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run", "/dev/mqueue"):
    path = f"{folder}/hostile-{token()}"
    try:
        open(path, "wb").close()
    except OSError:
        continue
    os.unlink(path)
    made.append(path)
if made:
    harm(f"made {', '.join(made)}")
