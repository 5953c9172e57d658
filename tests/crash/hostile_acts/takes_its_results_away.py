"""Reports success after it removed the folder of its results, so that the verifier might fail."""

import os
import shutil
import sys
import time

frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
shutil.rmtree("trace", ignore_errors=True)
if os.access(".", os.W_OK):
    open("trace", "w").close()
frame.f_locals["channel"].send("done", frame.f_locals["nonce"], "0.1", "0.1")
time.sleep(0.2)
