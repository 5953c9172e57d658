"""Deletes the run folder and the memory bank."""

import os
import shutil

from hostile_tools import harm, place

shutil.rmtree(place("run"), ignore_errors=True)
for name in ("bank.db", "bank.db-wal", "bank.db-shm"):
    try:
        os.unlink(place(name))
    except OSError:
        continue
    harm(f"{name} was deleted")
