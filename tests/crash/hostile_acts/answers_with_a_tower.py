"""Sends a reply that is nested too deeply to parse."""

import os
import sys
import time

frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
os.write(frame.f_locals["channel"].descriptor, f"failed {frame.f_locals['nonce']} {'[' * 15_000}\n".encode())
time.sleep(0.2)
