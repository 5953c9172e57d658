"""Starts threads that never end."""

import threading
import time

from hostile_tools import LIVES_S

for _ in range(300):
    threading.Thread(target=time.sleep, args=(LIVES_S,), daemon=True).start()
