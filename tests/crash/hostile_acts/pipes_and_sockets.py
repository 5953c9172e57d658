"""Whoever opens a pipe without another end waits for ever."""

import os

for name in ("pipe", "kernel.so", "verdict.json", "core"):
    os.mkfifo(name)
