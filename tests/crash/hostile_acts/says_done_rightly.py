"""Takes the nonce of the command from the frames above and replies with it, twice."""

import sys
import time

frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
frame.f_locals["channel"].send("done", frame.f_locals["nonce"], "0.1", "0.1")
time.sleep(0.05)
