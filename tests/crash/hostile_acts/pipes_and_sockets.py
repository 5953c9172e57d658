"""Creates pipes and sockets, which block processes that open them."""

import os

for name in ("pipe", "kernel.so", "verdict.json", "core"):
    os.mkfifo(name)
